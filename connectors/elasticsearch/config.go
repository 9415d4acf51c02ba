package elasticsearch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/schema/config"
	"millrace/schema/config/javatls"
)

const (
	groupConnector = "Connector"
	groupData      = "Data Conversion"
	groupProxy     = "Proxy"
	groupSecurity  = "Security"
	groupStream    = "Data Stream"
)

var (
	connectionURL = config.Key[[]string]{Name: "connection.url", Importance: config.High, Group: groupConnector, Width: config.Long, Required: true, Hide: redactList,
		Doc: "Addresses of the server's nodes, such as http://es1:9200,http://es2:9200. Requests are spread over them."}
	username = config.Key[string]{Name: "connection.username", Group: groupConnector, Width: config.Short,
		Doc: "User for basic authentication; with connection.password, or neither."}
	password = config.Key[config.Password]{Name: "connection.password", Group: groupConnector, Width: config.Short,
		Doc: "Password of connection.username."}
	apiKey = config.Key[config.Password]{Name: "connection.api.key", Group: groupConnector, Width: config.Long,
		Doc: "API key instead of a user, encoded as Elasticsearch gives it. A key of Millrace's own."}
	batchSize = config.Key[int32]{Name: "batch.size", Default: 2000, Group: groupConnector, Check: config.Between[int32](1, 1_000_000),
		Doc: "Most documents in one bulk."}
	bulkBytes = config.Key[int64]{Name: "bulk.size.bytes", Default: 5 << 20, Importance: config.Low, Group: groupConnector, Check: config.AtLeastOneOrOff[int64],
		Doc: "Most bytes in one bulk; a larger document travels alone. -1 bounds bulks by batch.size and by 32 MiB alone."}
	maxInFlight = config.Key[int32]{Name: "max.in.flight.requests", Default: 5, Group: groupConnector, Check: config.Between[int32](1, 1000),
		Doc: "Bulks that may be under way at once. Two that hold the same document never are."}
	maxBuffered = config.Key[int32]{Name: "max.buffered.records", Default: 20000, Importance: config.Low, Group: groupConnector, Check: config.AtLeast[int32](1),
		Doc: "Records that may wait or be under way; then the task takes no more until some are stored."}
	linger = config.Key[time.Duration]{Name: "linger.ms", Default: time.Millisecond, Importance: config.Low, Group: groupConnector, Check: config.AtLeast[time.Duration](0),
		Doc: "How long a bulk that is not full waits for more records, as a rule: it is looked at with every delivery, at least once a second."}
	flushTimeout = config.Key[time.Duration]{Name: "flush.timeout.ms", Default: 180 * time.Second, Importance: config.Low, Group: groupConnector, Check: config.AtLeast[time.Duration](1 * time.Millisecond),
		Doc: "With flush.synchronously: how long a flush may wait for what is under way."}
	flushSync = config.Key[bool]{Name: "flush.synchronously", Importance: config.Low, Group: groupConnector,
		Doc: "Whether a flush waits for everything that was taken. Else it waits a second at most, and what is not stored by then is committed by a later one."}
	maxRetries = config.Key[int32]{Name: "max.retries", Default: 5, Importance: config.Low, Group: groupConnector, Check: config.AtLeast[int32](0),
		Doc: "How often a request that failed for a cause that may pass is sent again, before the task reports the failure."}
	retryBackoff = config.Key[time.Duration]{Name: "retry.backoff.ms", Default: 100 * time.Millisecond, Importance: config.Low, Group: groupConnector, Check: config.AtLeast[time.Duration](0),
		Doc: "The first wait between attempts is random up to this; the bound doubles with each. A server's Retry-After is kept in any case."}
	compression = config.Key[bool]{Name: "connection.compression", Importance: config.Low, Group: groupConnector,
		Doc: "Whether requests are compressed with gzip."}
	idleTime = config.Key[time.Duration]{Name: "max.connection.idle.time.ms", As: config.IntType, Default: 60 * time.Second, Importance: config.Low, Group: groupConnector,
		Doc: "How long an unused connection stays open."}
	connectTimeout = config.Key[time.Duration]{Name: "connection.timeout.ms", As: config.IntType, Default: time.Second, Importance: config.Low, Group: groupConnector, Check: config.Between(0, 12*time.Hour),
		Doc: "How long to wait for a connection; 0 waits without end."}
	readTimeout = config.Key[time.Duration]{Name: "read.timeout.ms", As: config.IntType, Default: 3 * time.Second, Importance: config.Low, Group: groupConnector, Check: config.Between(0, 7*24*time.Hour),
		Doc: "How long to wait for the server's answer; 0 waits without end."}

	keyIgnore = config.Key[bool]{Name: "key.ignore", Importance: config.High, Group: groupData,
		Doc: "Whether to make the document's id of topic, partition and offset (topic+0+42) instead of the record's key. Then each record is a document of its own."}
	topicKeyIgnore = config.Key[[]string]{Name: "topic.key.ignore", Importance: config.Low, Group: groupData, Width: config.Long, EmptyDefault: true,
		Doc: "Topics for which key.ignore holds, whatever it says for the others."}
	schemaIgnore = config.Key[bool]{Name: "schema.ignore", Importance: config.Low, Group: groupData,
		Doc: "Whether to leave the mapping to the server instead of making it of the records' schema. Without a schema it is left to the server anyway."}
	topicSchemaIgnore = config.Key[[]string]{Name: "topic.schema.ignore", Importance: config.Low, Group: groupData, Width: config.Long, EmptyDefault: true,
		Doc: "Topics for which schema.ignore holds, whatever it says for the others."}
	compactMaps = config.Key[bool]{Name: "compact.map.entries", Default: true, Importance: config.Low, Group: groupData,
		Doc: "Whether a map with texts for keys becomes an object. Else, and for other keys, it becomes an array of {\"key\":…,\"value\":…}."}
	dropInvalid = config.Key[bool]{Name: "drop.invalid.message", Importance: config.Low, Group: groupData,
		Doc: "Whether records that make no document (no key, a text for a value) are left out and counted, instead of going to the dead-letter topic or failing the task."}
	onNull = config.Key[string]{Name: "behavior.on.null.values", Default: "FAIL", Importance: config.Low, Group: groupData, Check: config.OneOf("ignore", "delete", "fail"),
		Doc: "What a null value means: ignore it (where errors.tolerance is all, it is reported like an error), delete the document of the key, or fail (the record goes to the dead-letter topic, if there is one)."}
	onMalformed = config.Key[string]{Name: "behavior.on.malformed.documents", Default: "FAIL", Importance: config.Low, Group: groupData, Check: config.OneOf("ignore", "warn", "fail"),
		Doc: "What to do with a document that the server refuses: ignore it, warn in the log, or fail (the record goes to the dead-letter topic, if there is one)."}
	versionHeader = config.Key[string]{Name: "external.version.header", Importance: config.Low, Group: groupData, EmptyDefault: true,
		Doc: "Header that holds the document's version, a whole number. Empty: the record's offset is the version."}
	documentVersions = config.Key[string]{Name: "document.versions", Default: "offset", Importance: config.Low, Group: groupData, Check: config.OneOf("offset", "none"),
		Doc: "offset: the offset (or external.version.header) is the document's version, and what is older by it never overwrites. none: the last write wins, " +
			"for keys that move between partitions or topics that are made anew over a lasting index. A key of Millrace's own."}
	writeMethod = config.Key[string]{Name: "write.method", Default: "INSERT", Importance: config.Low, Group: groupData, Check: config.OneOf("insert", "upsert"),
		Doc: "insert replaces the document. upsert changes the fields that the record has and makes the document where there is none; it has no versions."}
	autoIDs = config.Key[bool]{Name: "use.autogenerated.ids", Group: groupData,
		Doc: "Whether the server makes the ids. Then a record that is sent twice is there twice. Only with write.method=insert."}
	placeholder = config.Key[string]{Name: "unavailable.value.placeholder", Default: "__debezium_unavailable_value", Importance: config.Low, Group: groupData,
		Doc: "With write.method=upsert, fields that hold this text, bytes or list of it are left out: a large value that Postgres did not log keeps what the document has. A key of Millrace's own."}

	proxyHost = config.Key[string]{Name: "proxy.host", Importance: config.Low, Group: groupProxy, Width: config.Long, EmptyDefault: true,
		Doc: "HTTP proxy through which the server is reached; none where empty."}
	proxyPort = config.Key[int32]{Name: "proxy.port", Default: 8080, Importance: config.Low, Group: groupProxy, Check: config.Between[int32](1, 65535),
		Doc: "Port of proxy.host."}
	proxyUser = config.Key[string]{Name: "proxy.username", Importance: config.Low, Group: groupProxy, EmptyDefault: true,
		Doc: "User at the proxy; with proxy.password, or neither."}
	proxyPassword = config.Key[config.Password]{Name: "proxy.password", Importance: config.Low, Group: groupProxy,
		Doc: "Password of proxy.username."}

	securityProtocol = config.Key[string]{Name: "elastic.security.protocol", Default: "PLAINTEXT", Group: groupSecurity, Check: config.OneOf("PLAINTEXT", "SSL"),
		Doc: "SSL uses the elastic.https.ssl settings. Without them https:// addresses are checked against the system's authorities."}
	kerberosUser = config.Key[string]{Name: "kerberos.user.principal", Group: groupSecurity, Check: unsupported("Kerberos"),
		Doc: "Kerberos is not supported; the key stands here so that it is refused and not overlooked."}
	kerberosKeytab = config.Key[string]{Name: "kerberos.keytab.path", Group: groupSecurity, Check: unsupported("Kerberos"),
		Doc: "See kerberos.user.principal."}

	streamType = config.Key[string]{Name: "data.stream.type", Default: "NONE", Importance: config.Low, Group: groupStream, Check: streamPart,
		Doc: "First part of a data stream's name: logs, metrics, or a type of one's own that an index template has. none writes to indices."}
	streamDataset = config.Key[string]{Name: "data.stream.dataset", Importance: config.Low, Group: groupStream, EmptyDefault: true, Check: streamPart,
		Doc: "Second part of a data stream's name; with data.stream.type, or neither."}
	streamNamespace = config.Key[string]{Name: "data.stream.namespace", Default: topicPlace, Importance: config.Low, Group: groupStream,
		Check: func(s string) error { return streamPart(strings.ReplaceAll(s, topicPlace, "")) },
		Doc:   "Third part of a data stream's name, at most 100 bytes of it. ${topic} in it is the topic."}
	streamTimestamp = config.Key[[]string]{Name: "data.stream.timestamp.field", Importance: config.Low, Group: groupStream, EmptyDefault: true,
		Doc: "Fields of which the first that a record has becomes @timestamp, which a data stream needs. Empty: the record's timestamp."}
	resourceUsage = config.Key[string]{Name: "external.resource.usage", Default: "DISABLED", Importance: config.Low, Group: groupStream,
		Check: config.OneOf("disabled", "index", "datastream", "alias_index", "alias_datastream"),
		Doc: "Whether topics go to resources made elsewhere, and which: an index, a data stream, or an alias of either. " +
			"disabled makes an index or a data stream by each topic's name."}
	resourceMap = config.Key[[]string]{Name: "topic.to.external.resource.mapping", Importance: config.Low, Group: groupStream, EmptyDefault: true,
		Check: func(pairs []string) error { _, err := resourcePairs(pairs); return err },
		Doc:   "With external.resource.usage: topic:resource for each topic."}
	resourceMax = config.Key[int32]{Name: "max.external.resource.mappings", Default: 15, Importance: config.Low, Group: groupStream, Check: config.AtLeast[int32](1),
		Doc: "Most pairs of topic.to.external.resource.mapping."}
)

const sslPrefix = "elastic.https.ssl."

var tlsKeys = javatls.Below(sslPrefix)

// settings are the connector's keys in the order in which listings show them.
var settings = config.Define(
	connectionURL, username, password, apiKey, batchSize, bulkBytes, maxInFlight, maxBuffered, linger, flushTimeout, flushSync, maxRetries, retryBackoff,
	compression, idleTime, connectTimeout, readTimeout,
	keyIgnore, topicKeyIgnore, schemaIgnore, topicSchemaIgnore, compactMaps, dropInvalid, onNull, onMalformed, versionHeader, documentVersions,
	writeMethod, autoIDs, placeholder,
	proxyHost, proxyPort, proxyUser, proxyPassword,
	securityProtocol, kerberosUser, kerberosKeytab,
	streamType, streamDataset, streamNamespace, streamTimestamp, resourceUsage, resourceMap, resourceMax,
).Merge(tlsKeys.Client()).Ignoring(map[string]string{
	"type.name": "Elasticsearch 7 and later and OpenSearch know no types within an index",
})

func unsupported(what string) func(string) error {
	return func(v string) error {
		if v != "" {
			return fmt.Errorf("%s: not supported; remove the key", what)
		}
		return nil
	}
}

// crossRules are the rules that bind several keys.
func crossRules(v config.Values) []*config.Error {
	errs := config.Login(v, username, password)
	errs = append(errs, config.Login(v, proxyUser, proxyPassword)...)
	if autoIDs.Get(v) && isUpsert(v) {
		errs = append(errs, autoIDs.Errorf(v, "an upsert needs an id of the record's own; set write.method=insert or use.autogenerated.ids=false"))
	}
	if apiKey.Get(v) != (config.Password{}) && username.Get(v) != "" {
		errs = append(errs, apiKey.Errorf(v, "%s is set, too; sign in with one of them", username.Name))
	}
	errs = append(errs, resourceRules(v)...)
	if urls := connectionURL.Get(v); len(urls) == 0 || slices.Contains(urls, "") {
		errs = append(errs, &config.Error{Key: connectionURL.Name, Value: redactList(strings.Join(urls, ",")), Reason: "an address is empty; give at least one, such as http://localhost:9200"})
	} else if _, err := parseURLs(urls); err != nil {
		errs = append(errs, &config.Error{Key: connectionURL.Name, Value: redactList(strings.Join(urls, ",")), Reason: err.Error()})
	}
	return errs
}

func isUpsert(v config.Values) bool { return strings.EqualFold(writeMethod.Get(v), "upsert") }

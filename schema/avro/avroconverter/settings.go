package avroconverter

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/config/javatls"
	"millrace/schema/config/signin"
	"millrace/schema/converters"
	"millrace/schema/plugin"
)

const (
	groupRegistry = "Schema Registry"
	groupSchemas  = "Schemas"
	groupData     = "Data"
)

func low[T config.Value](k config.Key[T]) config.Key[T] {
	k.Importance = config.Low
	return k
}

var (
	converterType = config.Key[string]{Name: "converter.type", Required: true, Importance: config.Low, Check: config.OneOf("key", "value", "header"), Internal: true,
		Doc: "What this converter converts: key or value. The worker sets it."}

	registryURL = config.Key[[]string]{Name: "schema.registry.url", Importance: config.High, Group: groupRegistry, Width: config.Long, Hide: redactURLs,
		Doc: "Addresses of the schema registry, such as http://registry1:8081,http://registry2:8081; the next one is asked when one does not answer. Without it, the registry of this process is asked, if it has one."}
	shuffle = low(config.Key[bool]{Name: "schema.registry.url.randomize", Group: groupRegistry,
		Doc: "Whether to begin at a random address of the list."})
	authSource = config.Key[string]{Name: "basic.auth.credentials.source", Default: "URL", Group: groupRegistry, Check: config.OneOf("URL", "USER_INFO", "SASL_INHERIT"),
		Doc: "Where the user and the password are: in the address (URL: https://user:password@registry), in basic.auth.user.info (USER_INFO) or in sasl.jaas.config (SASL_INHERIT)."}
	jaas = config.Key[config.Password]{Name: "sasl.jaas.config", Group: groupRegistry, Check: func(p config.Password) error { _, err := signin.ParseJaas(p.Reveal()); return err },
		Doc: "Login module with its options, in JAAS form, with basic.auth.credentials.source=SASL_INHERIT or bearer.auth.credentials.source=SASL_OAUTHBEARER_INHERIT. It is this converter's own setting: value.converter.sasl.jaas.config."}
	userInfo = config.Key[config.Password]{Name: "basic.auth.user.info", Group: groupRegistry,
		Doc: "user:password, with basic.auth.credentials.source=USER_INFO."}
	oldUserInfo = config.Key[config.Password]{Name: "schema.registry.basic.auth.user.info", Group: groupRegistry,
		Doc: "The older name of basic.auth.user.info, which goes before it."}
	bearerSource = config.Key[string]{Name: "bearer.auth.credentials.source", Default: "STATIC_TOKEN", Group: groupRegistry, Check: config.OneOf("STATIC_TOKEN", "OAUTHBEARER", "SASL_OAUTHBEARER_INHERIT"),
		Doc: "Where the bearer token comes from: bearer.auth.token (STATIC_TOKEN), the server at bearer.auth.issuer.endpoint.url (OAUTHBEARER), or the one at sasl.oauthbearer.token.endpoint.url, with the clientId, clientSecret and scope of sasl.jaas.config (SASL_OAUTHBEARER_INHERIT)."}
	bearerToken = config.Key[config.Password]{Name: "bearer.auth.token", Group: groupRegistry,
		Doc: "Token for bearer authentication, instead of a user."}
	bearerURL = config.Key[string]{Name: "bearer.auth.issuer.endpoint.url", Group: groupRegistry, EmptyDefault: true, Check: endpointCheck,
		Doc: "Address that gives tokens for a client's credentials, with bearer.auth.credentials.source=OAUTHBEARER. It is reached like the registry, with schema.registry.ssl.* and proxy.host."}
	bearerClient = config.Key[string]{Name: "bearer.auth.client.id", Group: groupRegistry, EmptyDefault: true,
		Doc: "Id of the client that tokens are asked for."}
	bearerSecret = config.Key[config.Password]{Name: "bearer.auth.client.secret", Group: groupRegistry,
		Doc: "Secret of the client that tokens are asked for."}
	bearerScope = config.Key[string]{Name: "bearer.auth.scope", Group: groupRegistry, EmptyDefault: true,
		Doc: "Scope that tokens are asked for."}
	bearerEarly = low(config.Key[int16]{Name: "bearer.auth.cache.expiry.buffer.seconds", Default: 300, Group: groupRegistry, Check: config.AtLeast[int16](0),
		Doc: "How many seconds before its end a token is not used any more."})
	bearerCluster = config.Key[string]{Name: "bearer.auth.logical.cluster", Group: groupRegistry, EmptyDefault: true,
		Doc: "Id of the registry behind an address that many share, sent with the token (target-sr-cluster)."}
	bearerPool = config.Key[string]{Name: "bearer.auth.identity.pool.id", Group: groupRegistry, EmptyDefault: true,
		Doc: "Id of the identity pool, sent with the token (Confluent-Identity-Pool-Id)."}
	saslURL = config.Key[string]{Name: "sasl.oauthbearer.token.endpoint.url", Group: groupRegistry, EmptyDefault: true, Check: endpointCheck,
		Doc: "Address that gives tokens, with bearer.auth.credentials.source=SASL_OAUTHBEARER_INHERIT."}
	connectTimeout = low(config.Key[time.Duration]{Name: "http.connect.timeout.ms", As: config.IntType, Default: 60 * time.Second, Group: groupRegistry, Check: config.AtLeast[time.Duration](0),
		Doc: "How long to wait for a connection; 0 waits as long as the system does."})
	readTimeout = low(config.Key[time.Duration]{Name: "http.read.timeout.ms", As: config.IntType, Default: 60 * time.Second, Group: groupRegistry, Check: config.AtLeast[time.Duration](0),
		Doc: "How long to wait for an answer, the connection included; 0 waits without end."})
	maxRetries = low(config.Key[int32]{Name: "max.retries", Default: 3, Group: groupRegistry, Check: config.Between[int32](0, 1000),
		Doc: "How often a request without an answer, or with one that says that the server is in trouble, is sent again. Then errors.retry.timeout decides whether the record is tried again."})
	retryWait = low(config.Key[time.Duration]{Name: "retries.wait.ms", As: config.IntType, Default: time.Second, Group: groupRegistry, Check: config.AtLeast[time.Duration](0),
		Doc: "Longest wait before the first retry; it doubles with each."})
	retryMaxWait = low(config.Key[time.Duration]{Name: "retries.max.wait.ms", As: config.IntType, Default: 20 * time.Second, Group: groupRegistry, Check: config.AtLeast[time.Duration](0),
		Doc: "Longest wait before any retry."})
	proxyHost = low(config.Key[string]{Name: "proxy.host", Group: groupRegistry, EmptyDefault: true,
		Doc: "HTTP proxy through which the registry is reached; none where empty."})
	proxyPort = low(config.Key[int32]{Name: "proxy.port", Default: -1, Group: groupRegistry, Check: config.Between[int32](-1, 65535),
		Doc: "Port of proxy.host."})

	autoRegister = config.Key[bool]{Name: "auto.register.schemas", Default: true, Group: groupSchemas,
		Doc: "Whether schemas of what is written are registered. Else they must be there already."}
	normalize = config.Key[bool]{Name: "normalize.schemas", Group: groupSchemas,
		Doc: "Whether the registry brings schemas into one form when it registers or looks them up, so that the order of properties does not matter."}
	useLatest = low(config.Key[bool]{Name: "use.latest.version", Group: groupSchemas,
		Doc: "With auto.register.schemas=false: whether to write with the subject's latest version, whatever it is, instead of looking the data's own schema up."})
	latestStrict = low(config.Key[bool]{Name: "latest.compatibility.strict", Default: true, Group: groupSchemas,
		Doc: "Whether the latest version must be able to read what the data's own schema would write."})
	latestTTL = low(config.Key[int32]{Name: "latest.cache.ttl.sec", Default: -1, Group: groupSchemas, Check: config.AtLeast[int32](-1),
		Doc: "How many seconds the latest version is taken for the latest before the registry is asked again; -1 is for ever."})
	latestWith = low(config.Key[string]{Name: "use.latest.with.metadata", Group: groupSchemas, EmptyDefault: true,
		Doc: "With auto.register.schemas=false: properties that the metadata of a version must have, such as app.version=1,team=blue. The latest version that has them is written, before use.latest.version."})
	useID = low(config.Key[int32]{Name: "use.schema.id", Default: -1, Group: groupSchemas,
		Doc: "With auto.register.schemas=false: the id of the schema to write with. -1: none."})
	idStrict = low(config.Key[bool]{Name: "id.compatibility.strict", Default: true, Group: groupSchemas,
		Doc: "Whether the schema of use.schema.id must be able to read what the data's own schema would write."})
	contextStrategy = low(config.Key[config.Class]{Name: "context.name.strategy", Default: nullContext, Group: groupSchemas, Check: oneClass(nullContext),
		Doc: "How a context is made of a topic: not at all (NullContextNameStrategy). Others are Java classes. A registry's path can name a context: http://registry:8081/contexts/.team."})
	keyStrategy = config.Key[config.Class]{Name: "key.subject.name.strategy", Default: "io.confluent.kafka.serializers.subject.TopicNameStrategy", Group: groupSchemas, Check: strategyCheck,
		Doc: "Under which subject the schemas of keys are: TopicNameStrategy (<topic>-key), RecordNameStrategy (the record's full name) or TopicRecordNameStrategy (<topic>-<full name>)."}
	valueStrategy = config.Key[config.Class]{Name: "value.subject.name.strategy", Default: "io.confluent.kafka.serializers.subject.TopicNameStrategy", Group: groupSchemas, Check: strategyCheck,
		Doc: "Under which subject the schemas of values are: TopicNameStrategy (<topic>-value), RecordNameStrategy (the record's full name) or TopicRecordNameStrategy (<topic>-<full name>)."}
	keyIDs = config.Key[config.Class]{Name: "key.schema.id.serializer", Default: prefixSerializer, Group: groupSchemas, Check: oneClass(prefixSerializer, headerSerializer),
		Doc: "Where a key's schema id is written: before the key (PrefixSchemaIdSerializer) or, as a GUID, in the header __key_schema_id (HeaderSchemaIdSerializer)."}
	valueIDs = config.Key[config.Class]{Name: "value.schema.id.serializer", Default: prefixSerializer, Group: groupSchemas, Check: oneClass(prefixSerializer, headerSerializer),
		Doc: "Where a value's schema id is written: before the value (PrefixSchemaIdSerializer) or, as a GUID, in the header __value_schema_id (HeaderSchemaIdSerializer)."}
	keyIDsRead = config.Key[config.Class]{Name: "key.schema.id.deserializer", Default: dualDeserializer, Group: groupSchemas, Check: oneClass(dualDeserializer, prefixDeserializer),
		Doc: "Where a key's schema id is read: in the header where there is one, else before the key (DualSchemaIdDeserializer), or before the key alone (PrefixSchemaIdDeserializer)."}
	valueIDsRead = config.Key[config.Class]{Name: "value.schema.id.deserializer", Default: dualDeserializer, Group: groupSchemas, Check: oneClass(dualDeserializer, prefixDeserializer),
		Doc: "Where a value's schema id is read: in the header where there is one, else before the value (DualSchemaIdDeserializer), or before the value alone (PrefixSchemaIdDeserializer)."}

	cacheSize = low(config.Key[int32]{Name: "schemas.cache.config", Default: 1000, Group: groupData, Check: config.Between[int32](1, 1_000_000),
		Doc: "Number of schemas that are kept, with what was computed for them, for writing and for reading."})
	enhanced = config.Key[bool]{Name: "enhanced.avro.schema.support", Group: groupData,
		Doc: "Whether enums stay enums, and the members of unions have their full names."}
	scrub = config.Key[bool]{Name: "scrub.invalid.names", Group: groupData,
		Doc: "Whether names that Avro does not allow are made legal: other characters become _ and their code, x goes before a digit."}
	metaData = low(config.Key[bool]{Name: "connect.meta.data", Default: true, Group: groupData,
		Doc: "Whether what Avro has no words for (names of logical types, versions, parameters, docs, defaults) is kept in properties called connect.*, and read from them."})
	optionalKeys = low(config.Key[bool]{Name: "allow.optional.map.keys", Group: groupData,
		Doc: "Whether a map with optional texts for keys is an Avro map; else it is an array of pairs."})
	flatten = low(config.Key[bool]{Name: "flatten.singleton.unions", Default: true, Group: groupData,
		Doc: "Whether a union of one branch is read as that branch."})
	discardDocs = low(config.Key[bool]{Name: "discard.type.doc.default", Group: groupData,
		Doc: "Whether docs and defaults are those of Avro's fields alone."})
	generalSums = config.Key[bool]{Name: "generalized.sum.type.support", Group: groupData,
		Doc: "Whether unions and enums have the form that is common to all of Confluent's converters."}
	keepNulls = config.Key[bool]{Name: "ignore.default.for.nullables", Group: groupData,
		Doc: "Whether a null field that has a default stays null; else the default is written."}
)

const (
	prefixSerializer   = "io.confluent.kafka.serializers.schema.id.PrefixSchemaIdSerializer"
	headerSerializer   = "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"
	prefixDeserializer = "io.confluent.kafka.serializers.schema.id.PrefixSchemaIdDeserializer"
	nullContext        = "io.confluent.kafka.serializers.context.NullContextNameStrategy"
	dualDeserializer   = "io.confluent.kafka.serializers.schema.id.DualSchemaIdDeserializer"
)

var tlsKeys = javatls.Below("schema.registry.ssl.")

const requestHeader = "request.header."

// Plugin is the converter.
var Plugin = converters.Plugin{
	Info: plugin.Info{
		Name: "avro", Class: "io.confluent.connect.avro.AvroConverter", Version: schema.ConnectVersion,
		Doc: "Data as Avro, with schemas in a schema registry. request.header.NAME is sent with every request to it.",
		Config: config.Define(converterType, registryURL, shuffle, authSource, userInfo, oldUserInfo, jaas, bearerSource, bearerToken, bearerURL, bearerClient, bearerSecret, bearerScope, bearerEarly,
			bearerCluster, bearerPool, saslURL, connectTimeout, readTimeout,
			maxRetries, retryWait, retryMaxWait, proxyHost, proxyPort,
			autoRegister, normalize, useLatest, latestStrict, latestTTL, latestWith, useID, idStrict, contextStrategy, keyStrategy, valueStrategy, keyIDs, valueIDs, keyIDsRead, valueIDsRead,
			cacheSize, enhanced, scrub, metaData, optionalKeys, flatten, discardDocs, generalSums, keepNulls).
			Merge(tlsKeys.Client()).
			Ignoring(map[string]string{
				"max.schemas.per.subject":           "schemas.cache.config bounds what is kept",
				"latest.cache.size":                 "schemas.cache.config bounds what is kept",
				"schema.reflection":                 "there are no Java classes to look into",
				"specific.avro.reader":              "there are no Java classes to make",
				"avro.reflection.allow.null":        "there are no Java classes to look into",
				"avro.use.logical.type.converters":  "values are Connect's, whose logical types are kept",
				"avro.remove.java.properties":       "no such properties are written",
				"rule.executors":                    "no rule is run here; data under one that would have to is refused",
				"rule.executors.*":                  "no rule is run here; data under one that would have to is refused",
				"rule.actions":                      "no rule is run here; data under one that would have to is refused",
				"rule.actions.*":                    "no rule is run here; data under one that would have to is refused",
				"rule.service.loader.enable":        "no rule is run here; data under one that would have to is refused",
				"rule.metrics.enable":               "no rule is run here; data under one that would have to is refused",
				"validation.rules.*":                "no rule is run here; data under one that would have to is refused",
				"execution.environment":             "no rule is run here; data under one that would have to is refused",
				"propagate.schema.tags":             "tags are not copied between versions",
				"bearer.auth.scope.claim.name":      "tokens are not looked into; the registry judges them",
				"bearer.auth.sub.claim.name":        "tokens are not looked into; the registry judges them",
				"bearer.auth.custom.provider.class": "a Java class; bearer.auth.credentials.source names where tokens come from",
				"reference.lookup.only":             "Avro's schemas are registered whole, without references",
				"schema.format":                     "schemas are asked for as they are stored",
				"reference.subject.name.strategy":   "Avro's schemas are registered whole, without references",
				"schema.registry.request.timeout.*": "http.read.timeout.ms bounds a request",
			}),
	},
	NewIn: func(v config.Values, isKey bool, env converters.Env) (converters.Converter, error) {
		return newConverter(v, isKey, env)
	},
}

// A strategy makes the name of a subject.
type strategy uint8

const (
	topicName strategy = iota
	recordName
	topicRecordName
)

const subjects = "io.confluent.kafka.serializers.subject."

var strategies = map[string]strategy{
	"TopicNameStrategy": topicName, "RecordNameStrategy": recordName, "TopicRecordNameStrategy": topicRecordName,
}

func strategyOf(c config.Class) (strategy, bool) {
	s, ok := strategies[strings.TrimPrefix(string(c), subjects)]
	return s, ok
}

// endpointCheck is a Check.
func endpointCheck(address string) error {
	if address == "" {
		return nil
	}
	return signin.CheckEndpoint(address)
}

// pairs reads name=value,… ; nothing is nil.
func pairs(text string) (map[string]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	out := map[string]string{}
	for _, one := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(one, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("it is name=value,name=value and so on; %q is not", one)
		}
		out[name] = strings.TrimSpace(value)
	}
	return out, nil
}

// strategyCheck is a Check.
func strategyCheck(c config.Class) error {
	if _, ok := strategyOf(c); ok {
		return nil
	}
	return fmt.Errorf("it is %sTopicNameStrategy, %sRecordNameStrategy or %sTopicRecordNameStrategy", subjects, subjects, subjects)
}

func oneClass(all ...string) func(config.Class) error {
	return func(c config.Class) error {
		for _, one := range all {
			if is(c, one) {
				return nil
			}
		}
		return fmt.Errorf("it is %s", strings.Join(all, " or "))
	}
}

// is compares a class with a known one, which may be named without its package.
func is(c config.Class, full string) bool {
	return string(c) == full || string(c) == full[strings.LastIndexByte(full, '.')+1:]
}

// redactURLs hides what signs in.
func redactURLs(text string) string {
	parts := strings.Split(text, ",")
	for i, p := range parts {
		u, err := url.Parse(strings.TrimSpace(p))
		switch {
		case err != nil:
			parts[i] = "[hidden]"
		case u.User != nil:
			parts[i] = u.Redacted()
		}
	}
	return strings.Join(parts, ",")
}

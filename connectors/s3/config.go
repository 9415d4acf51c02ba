package s3

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"millrace/connectors/warehouse"
	"millrace/schema/config"
)

const (
	groupS3     = "S3"
	groupProxy  = "Proxy"
	groupBeside = "Keys and headers"

	avroFormat = "io.confluent.connect.s3.format.avro.AvroFormat"
)

var (
	bucketName = config.Key[string]{Name: "s3.bucket.name", Required: true, Importance: config.High, Group: groupS3,
		Doc: "Bucket of the objects. It must be there."}
	region = config.Key[string]{Name: "s3.region", Default: "us-west-2", Group: groupS3,
		Doc: "Region of the bucket."}
	storeURL = config.Key[string]{Name: "store.url", Importance: config.High, Group: groupS3, Check: httpURL,
		Doc: "Address of a server that speaks S3's protocol, such as http://127.0.0.1:9000; Amazon's where it is not set."}
	pathStyle = config.Key[bool]{Name: "s3.path.style.access.enabled", Default: true, Importance: config.Low, Group: groupS3,
		Doc: "Whether the bucket stands in the path of an address, and not in the host's name."}
	wanMode = config.Key[bool]{Name: "s3.wan.mode", Group: groupS3,
		Doc: "Whether Amazon's accelerated endpoint is used."}
	accessKey = config.Key[string]{Name: "aws.access.key.id", EmptyDefault: true, Importance: config.High, Group: groupS3,
		Doc: "Access key; with aws.secret.access.key, or neither: then the environment, the shared files, a web identity and the instance are asked, in this order."}
	secretKey = config.Key[config.Password]{Name: "aws.secret.access.key", Importance: config.High, Group: groupS3,
		Doc: "Secret of aws.access.key.id."}
	credentialsClass = config.Key[config.Class]{Name: "s3.credentials.provider.class", Default: defaultChain, Importance: config.Low, Group: groupS3,
		Check: func(c config.Class) error {
			switch string(c) {
			case defaultChain, defaultChain2, assumeRole:
				return nil
			}
			return fmt.Errorf("Java classes cannot be loaded; there are %s and %s", defaultChain, assumeRole)
		},
		Doc: "Where credentials come from: the default chain, or a role that is assumed (see s3.credentials.provider.sts.role.arn)."}
	roleARN = config.Key[string]{Name: "s3.credentials.provider.sts.role.arn", Importance: config.Low, Group: groupS3,
		Doc: "Role that AwsAssumeRoleCredentialsProvider assumes."}
	roleSession = config.Key[string]{Name: "s3.credentials.provider.sts.role.session.name", Importance: config.Low, Group: groupS3,
		Doc: "Name of its session; the connector's where it is not set."}
	roleExternal = config.Key[string]{Name: "s3.credentials.provider.sts.role.external.id", Importance: config.Low, Group: groupS3,
		Doc: "External id that the role asks for."}
	stsRegion = config.Key[string]{Name: "s3.credentials.provider.sts.region", Importance: config.Low, Group: groupS3,
		Doc: "Region in which the role is assumed; s3.region where it is not set."}
	stsEndpoint = config.Key[string]{Name: "s3.credentials.provider.sts.endpoint", Importance: config.Low, Group: groupS3, Check: httpURL,
		Doc: "Address where the role is assumed; Amazon's where it is not set. A key of Millrace's own."}
	partSize = config.Key[int64]{Name: "s3.part.size", Default: 25 << 20, Importance: config.High, Group: groupS3, Check: config.Between[int64](5<<20, 5<<30),
		Doc: "Bytes of a part: a larger object is sent in parts, several at once."}
	partRetries = config.Key[int32]{Name: "s3.part.retries", Default: 3, Group: groupS3, Check: config.Between[int32](0, 1000),
		Doc: "How often a request that failed for a cause that may pass is sent again, before the task reports it and is tried anew."}
	retryBackoff = config.Key[time.Duration]{Name: "s3.retry.backoff.ms", Default: 200 * time.Millisecond, Importance: config.Low, Group: groupS3, Check: config.AtLeast[time.Duration](0),
		Doc: "The first pause before a request is sent again is random up to this; the bound doubles each time."}
	acl = config.Key[string]{Name: "s3.acl.canned", Importance: config.Low, Group: groupS3, Check: func(s string) error { _, err := cannedACL(s); return err },
		Doc: "Canned ACL of objects, such as bucket-owner-full-control."}
	sse = config.Key[string]{Name: "s3.ssea.name", EmptyDefault: true, Importance: config.Low, Group: groupS3, Check: config.OneOf("", "AES256", "aws:kms", "aws:kms:dsse"),
		Doc: "How objects are encrypted where they lie: AES256 or aws:kms; empty leaves it to the bucket."}
	sseKey = config.Key[config.Password]{Name: "s3.sse.customer.key", Importance: config.Low, Group: groupS3,
		Doc: "Key of one's own for s3.ssea.name=AES256: 32 bytes, in base64 or as they are."}
	kmsKey = config.Key[string]{Name: "s3.sse.kms.key.id", EmptyDefault: true, Importance: config.Low, Group: groupS3,
		Doc: "Key for s3.ssea.name=aws:kms; the account's where it is not set."}
	objectClass = config.Key[string]{Name: "s3.storage.class", EmptyDefault: true, Importance: config.Low, Group: groupS3, Check: func(s string) error { _, err := objectClassOf(s); return err },
		Doc: "Storage class of objects, such as STANDARD_IA or INTELLIGENT_TIERING; empty leaves it to the bucket. A key of Millrace's own."}
	compression = config.Key[string]{Name: "s3.compression.type", Default: "none", Importance: config.Low, Group: groupS3, Check: config.OneOf("none", "gzip"),
		Doc: "Whether objects of JsonFormat, StringFormat and ByteArrayFormat are compressed with gzip."}
	compressionLevel = config.Key[int32]{Name: "s3.compression.level", Default: -1, Importance: config.Low, Group: groupS3, Check: config.Between[int32](-1, 9),
		Doc: "Level of gzip, 1 to 9; -1 is its default."}
	tagging = config.Key[bool]{Name: "s3.object.tagging", Importance: config.Low, Group: groupS3,
		Doc: "Whether objects have the tags startOffset, endOffset and recordCount."}
	tagPairs = config.Key[[]string]{Name: "s3.object.tagging.key.value.pairs", EmptyDefault: true, Importance: config.Low, Group: groupS3, Check: func(p []string) error { _, err := tagsOf(p); return err },
		Doc: "With s3.object.tagging: further tags, key:value, at most seven."}
	conditional = config.Key[bool]{Name: "enable.conditional.writes", Default: true, Importance: config.Low, Group: groupS3,
		Doc: "Whether an object that is there is never overwritten. Set false where the server knows no If-None-Match; then an object that is written again replaces its like."}

	proxyURL = config.Key[string]{Name: "s3.proxy.url", EmptyDefault: true, Importance: config.Low, Group: groupProxy, Check: httpURL,
		Doc: "HTTP proxy, such as http://proxy:3128."}
	proxyUser = config.Key[string]{Name: "s3.proxy.user", Importance: config.Low, Group: groupProxy,
		Doc: "User at the proxy; with s3.proxy.password, or neither."}
	proxyPassword = config.Key[config.Password]{Name: "s3.proxy.password", Importance: config.Low, Group: groupProxy,
		Doc: "Password of s3.proxy.user."}

	storageClass = config.Key[config.Class]{Name: "storage.class", Default: "io.confluent.connect.s3.storage.S3Storage", Importance: config.Low, Group: groupS3,
		Check: func(c config.Class) error {
			if !strings.HasSuffix(string(c), "S3Storage") {
				return errors.New("this connector writes to S3; set io.confluent.connect.s3.storage.S3Storage")
			}
			return nil
		},
		Doc: "Where files go; always S3 here."}
	storeKeys = config.Key[bool]{Name: "store.kafka.keys", Importance: config.Low, Group: groupBeside,
		Doc: "Whether keys are stored beside the values, in objects whose names end with .keys and the format's end. A record without a key is then an error of the record."}
	storeHeaders = config.Key[bool]{Name: "store.kafka.headers", Importance: config.Low, Group: groupBeside,
		Doc: "Whether headers are stored beside the values, their values as texts, in objects whose names end with .headers and the format's end."}
	keysFormat = config.Key[config.Class]{Name: "keys.format.class", Default: avroFormat, Importance: config.Low, Group: groupBeside, Check: warehouse.FormatClass,
		Doc: "What the objects of keys are; see format.class. In ParquetFormat a key is the field key of a struct."}
	headersFormat = config.Key[config.Class]{Name: "headers.format.class", Default: avroFormat, Importance: config.Low, Group: groupBeside, Check: warehouse.FormatClass,
		Doc: "What the objects of headers are: a list of key and value for each record. In ParquetFormat the list is the field headers of a struct."}
	onNull = func() config.Key[string] {
		k := warehouse.NullValues
		k.Check = config.OneOf("fail", "ignore", "write")
		k.Doc = "What a null value means: ignore it, fail (the record goes to the dead-letter topic, if there is one), or write its key (with store.kafka.keys) into the folder of tombstone.encoded.partition."
		return k
	}()
	tombstones = config.Key[string]{Name: "tombstone.encoded.partition", Default: "tombstone", Importance: config.Low, Group: groupBeside, Check: warehouse.Folder,
		Doc: "Folder below the topic's of the keys of null values, with behavior.on.null.values=write."}
	affix = config.Key[string]{Name: "s3.schema.partition.affix.type", Default: "NONE", Importance: config.Low, Group: groupS3, Check: config.OneOf("NONE", "PREFIX", "SUFFIX"),
		Doc: "Whether the name of the value's schema is a folder (schema_name=…) before (PREFIX) or behind (SUFFIX) those of the partitioner."}
)

const (
	defaultChain  = "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"
	defaultChain2 = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
	assumeRole    = "io.confluent.connect.s3.auth.AwsAssumeRoleCredentialsProvider"
)

var settings = config.Define(bucketName, region, storeURL, pathStyle, wanMode, accessKey, secretKey, credentialsClass, roleARN, roleSession, roleExternal, stsRegion, stsEndpoint,
	partSize, partRetries, retryBackoff, acl, sse, sseKey, kmsKey, objectClass, compression, compressionLevel, tagging, tagPairs, conditional,
	proxyURL, proxyUser, proxyPassword, storageClass, storeKeys, storeHeaders, keysFormat, headersFormat, tombstones, affix).Merge(warehouse.Settings).Replacing(onNull).Ignoring(map[string]string{
	"s3.http.send.expect.continue":        "a request's body is sent at once",
	"s3.send.digest":                      "each request carries a CRC32 of its body",
	"s3.object.behavior.on.tagging.error": "tags are part of the request that makes an object visible",
	"report.null.values.to.dlq":           "a null value that fails is reported always, and one that is ignored never",
	"s3.aws.secret.access.key":            "see aws.secret.access.key",
})

func httpURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("it is no address; write it as http://host:9000 or https://host")
	}
	if u.User != nil {
		return errors.New("an address holds no login here; there are keys for user and password")
	}
	return nil
}

func cannedACL(s string) (types.ObjectCannedACL, error) {
	if s == "" {
		return "", nil
	}
	for _, known := range types.ObjectCannedACL("").Values() {
		if string(known) == s {
			return known, nil
		}
	}
	return "", fmt.Errorf("there is no canned ACL of that name; these are: %v", types.ObjectCannedACL("").Values())
}

func objectClassOf(s string) (types.StorageClass, error) {
	if s == "" {
		return "", nil
	}
	for _, known := range types.StorageClass("").Values() {
		if strings.EqualFold(string(known), s) {
			return known, nil
		}
	}
	return "", fmt.Errorf("there is no storage class of that name; these are: %v", types.StorageClass("").Values())
}

// tagsOf reads key:value pairs.
func tagsOf(pairs []string) (url.Values, error) {
	out := url.Values{}
	for _, p := range pairs {
		key, value, ok := strings.Cut(strings.TrimSpace(p), ":")
		if !ok || key == "" || len(key) > 128 || len(value) > 256 {
			return nil, fmt.Errorf("%q is no tag; write key:value, at most 128 and 256 characters", p)
		}
		out.Set(key, value)
	}
	if len(out) > 7 {
		return nil, fmt.Errorf("they are %d, and an object has at most ten tags, of which three are its offsets", len(out))
	}
	return out, nil
}

// customerKey is the 32 bytes of s3.sse.customer.key; nil where it is not set.
func customerKey(v config.Values) ([]byte, error) {
	text := sseKey.Get(v).Reveal()
	switch b, err := base64.StdEncoding.DecodeString(text); {
	case text == "":
		return nil, nil
	case err == nil && len(b) == 32:
		return b, nil
	case len(text) == 32:
		return []byte(text), nil
	}
	return nil, errors.New("it is no key of 32 bytes, in base64 or as they are")
}

func gzipLevel(v config.Values) int {
	if !strings.EqualFold(compression.Get(v), "gzip") {
		return 0
	}
	if n := int(compressionLevel.Get(v)); n != 0 {
		return n
	}
	return -1
}

// files are the options of the engine of files.
func files(v config.Values) warehouse.Options {
	o := warehouse.Options{Gzip: gzipLevel(v)}
	if storeKeys.Get(v) {
		o.Keys = keysFormat.Get(v)
	}
	if storeHeaders.Get(v) {
		o.Headers = headersFormat.Get(v)
	}
	if strings.EqualFold(onNull.Get(v), "write") {
		o.Tombstones = tombstones.Get(v)
	}
	if a := strings.ToUpper(affix.Get(v)); a != "NONE" {
		o.SchemaFolder = a
	}
	return o
}

// crossRules are the rules that bind several keys.
func crossRules(v config.Values) []*config.Error {
	errs := warehouse.Check(v, files(v))
	errs = append(errs, config.Login(v, accessKey, secretKey)...)
	errs = append(errs, config.Login(v, proxyUser, proxyPassword)...)
	if string(credentialsClass.Get(v)) == assumeRole && roleARN.Get(v) == "" {
		errs = append(errs, roleARN.Errorf(v, "%s needs the role; give its ARN", credentialsClass.Name))
	}
	if _, err := customerKey(v); err != nil {
		errs = append(errs, sseKey.Errorf(v, "%v", err))
	}
	if sseKey.Get(v).Reveal() != "" && sse.Get(v) != "AES256" {
		errs = append(errs, sse.Errorf(v, "%s goes with AES256 alone", sseKey.Name))
	}
	if kmsKey.Get(v) != "" && !strings.HasPrefix(sse.Get(v), "aws:kms") {
		errs = append(errs, sse.Errorf(v, "%s goes with aws:kms alone", kmsKey.Name))
	}
	if len(tagPairs.Get(v)) > 0 && !tagging.Get(v) {
		errs = append(errs, tagging.Errorf(v, "%s is set; set true, or remove it", tagPairs.Name))
	}
	if strings.EqualFold(onNull.Get(v), "write") && !storeKeys.Get(v) {
		errs = append(errs, onNull.Errorf(v, "of a null value its key is written; set %s=true, or ignore such values", storeKeys.Name))
	}
	if storeHeaders.Get(v) && strings.HasSuffix(string(headersFormat.Get(v)), "ByteArrayFormat") {
		errs = append(errs, headersFormat.Errorf(v, "headers are no bytes; set JsonFormat, AvroFormat or ParquetFormat"))
	}
	if storeURL.Get(v) != "" && wanMode.Get(v) {
		errs = append(errs, wanMode.Errorf(v, "only Amazon has an accelerated endpoint, and %s is set", storeURL.Name))
	}
	return errs
}

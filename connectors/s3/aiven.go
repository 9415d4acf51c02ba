package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/connectors"
	"millrace/connectors/warehouse"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// Aiven is the S3 sink with the settings of Aiven's. They are turned into those of Sink; what files are, and how they are called, is
// another matter: see warehouse.Output.
var Aiven = connectors.SinkPlugin{
	Info: plugin.Info{
		Name:    "aiven-s3",
		Class:   "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
		Version: "3.4.0",
		Doc:     "Writes records as objects of S3 with the settings of Aiven's sink: one object for a partition each time offsets are committed.",
		Config:  aivenSettings,
	},
	TaskClass: "io.aiven.kafka.connect.s3.S3SinkTask",
	Reasons:   reasons,
	New: func(cc connectors.Context, v config.Values) (connectors.Sink, error) {
		return &aivenSink{cc: cc, v: v}, nil
	},
	NewTask: func(cc connectors.Context, v config.Values) (connectors.SinkTask, error) {
		t, errs := translate(v)
		if len(errs) > 0 {
			return nil, connectors.BadConfig(errs[0])
		}
		return warehouse.NewTask(cc, t.v, t.options, func(ctx context.Context) (warehouse.Target, error) {
			return newTarget(ctx, cc, t.v, true)
		})
	},
}

// renamed is a key under its name and under its old one; aivenOld lists both.
func renamed[T config.Value](k config.Key[T], old string) (config.Key[T], config.Key[T]) {
	was := k
	was.Name, was.Doc, was.Importance = old, "The old name of "+k.Name+".", config.Low
	return k, was
}

const groupAiven = "Files"

var (
	aivenID, aivenIDOld = renamed(config.Key[string]{Name: "aws.access.key.id", EmptyDefault: true, Importance: config.High, Group: groupS3,
		Doc: "Access key; with aws.secret.access.key, or neither: then the environment, the shared files, a web identity and the instance are asked, in this order."}, "aws_access_key_id")
	aivenSecret, aivenSecretOld = renamed(config.Key[config.Password]{Name: "aws.secret.access.key", Importance: config.High, Group: groupS3,
		Doc: "Secret of aws.access.key.id."}, "aws_secret_access_key")
	aivenBucket, aivenBucketOld = renamed(config.Key[string]{Name: "aws.s3.bucket.name", Importance: config.High, Group: groupS3,
		Doc: "Bucket of the objects. It must be there."}, "aws_s3_bucket")
	aivenRegion, aivenRegionOld = renamed(config.Key[string]{Name: "aws.s3.region", Group: groupS3,
		Doc: "Region of the bucket; us-east-1 where it is not set."}, "aws_s3_region")
	aivenEndpoint, aivenEndpointOld = renamed(config.Key[string]{Name: "aws.s3.endpoint", Group: groupS3, Check: httpURL,
		Doc: "Address of a server that speaks S3's protocol; Amazon's where it is not set."}, "aws_s3_endpoint")
	aivenPrefix, aivenPrefixOld = renamed(config.Key[string]{Name: "aws.s3.prefix", EmptyDefault: true, Group: groupAiven, Check: aTemplate,
		Doc: "What names of objects begin with; see file.prefix.template."}, "aws_s3_prefix")
	aivenPart = config.Key[int64]{Name: "aws.s3.part.size.bytes", Default: 5 << 20, Group: groupS3, Check: config.Between[int64](5<<20, 2<<30),
		Doc: "Bytes of a part: a larger object is sent in parts, several at once."}
	aivenSSE = config.Key[string]{Name: "aws.s3.sse.algorithm", EmptyDefault: true, Importance: config.Low, Group: groupS3, Check: config.OneOf("", "AES256", "aws:kms", "aws:kms:dsse"),
		Doc: "How objects are encrypted where they lie; empty leaves it to the bucket."}
	aivenProvider = config.Key[config.Class]{Name: "aws.credentials.provider", Default: defaultChain, Importance: config.Low, Group: groupS3,
		Check: func(c config.Class) error {
			if c != defaultChain && c != defaultChain2 {
				return fmt.Errorf("Java classes cannot be loaded; there is %s", defaultChain)
			}
			return nil
		},
		Doc: "Where credentials come from when neither keys nor a role are given: the default chain."}
	aivenRole = config.Key[string]{Name: "aws.sts.role.arn", Importance: config.Low, Group: groupS3,
		Doc: "Role that is assumed."}
	aivenSession = config.Key[string]{Name: "aws.sts.role.session.name", Importance: config.Low, Group: groupS3,
		Doc: "Name of its session; the connector's where it is not set."}
	aivenExternal = config.Key[string]{Name: "aws.sts.role.external.id", Importance: config.Low, Group: groupS3,
		Doc: "External id that the role asks for."}
	aivenSTS = config.Key[string]{Name: "aws.sts.config.endpoint", Importance: config.Low, Group: groupS3, Check: httpURL,
		Doc: "Address where the role is assumed; Amazon's where it is not set."}
	aivenDelay = config.Key[time.Duration]{Name: "aws.s3.backoff.delay.ms", Default: 100 * time.Millisecond, Importance: config.Low, Group: groupS3, Check: config.AtLeast[time.Duration](time.Millisecond),
		Doc: "The first pause before a request is sent again is random up to this; the bound doubles each time, up to 20 seconds."}
	aivenRetries = config.Key[int32]{Name: "aws.s3.backoff.max.retries", Default: 3, Importance: config.Low, Group: groupS3, Check: config.Between[int32](0, 30),
		Doc: "How often a request that failed for a cause that may pass is sent again, before the task reports it and is tried anew."}

	aivenName = config.Key[string]{Name: "file.name.template", Default: "{{topic}}-{{partition}}-{{start_offset}}", Importance: config.High, Group: groupAiven,
		Check: func(s string) error {
			t, err := parseTemplate(s)
			if err == nil && !t.whole() {
				err = errors.New("files need names of their own; use {{topic}}, {{partition}} and {{start_offset}}, all three")
			}
			return err
		},
		Doc: "Names of objects, without the ending of the compression: {{topic}}, {{partition}}, {{start_offset}} (with :padding=true of equal width) and {{timestamp:unit=yyyy}}, MM, dd, HH."}
	aivenPrefixTemplate = config.Key[string]{Name: "file.prefix.template", EmptyDefault: true, Importance: config.Low, Group: groupAiven, Check: aTemplate,
		Doc: "What names of objects begin with, with the same variables; aws.s3.prefix where it is not set."}
	aivenPack, aivenPackOld = renamed(config.Key[string]{Name: "file.compression.type", Default: "gzip", Group: groupAiven, Check: config.OneOf("none", "gzip", "snappy", "zstd"),
		Doc: "How objects are compressed: none, gzip, snappy (as snappy-java frames it) or zstd; Parquet compresses its pages so."}, "output_compression")
	aivenMax = config.Key[int32]{Name: "file.max.records", Importance: config.Low, Group: groupAiven, Check: config.AtLeast[int32](0),
		Doc: "Most records of an object; 0: what came until offsets were committed."}
	aivenZone, aivenZoneOld = renamed(config.Key[string]{Name: "file.name.timestamp.timezone", Default: "Z", Importance: config.Low, Group: groupAiven, Check: func(s string) error { _, err := zoneOf(s); return err },
		Doc: "Time zone of {{timestamp}}."}, "timestamp.timezone")
	aivenSource, aivenSourceOld = renamed(config.Key[string]{Name: "file.name.timestamp.source", Default: "wallclock", Importance: config.Low, Group: groupAiven, Check: config.OneOf("wallclock", "event"),
		Doc: "What {{timestamp}} is: wallclock (when the object was begun) or event (the time of its first record)."}, "timestamp.source")
	aivenType = config.Key[string]{Name: "format.output.type", Default: "csv", Group: groupAiven, Check: config.OneOf("csv", "json", "jsonl", "avro", "parquet"),
		Doc: "What objects are: csv (fields with commas between them; keys, values and headers in base64), jsonl (an object in a line), json (one list), avro (an object container) or parquet."}
	aivenFields, aivenFieldsOld = renamed(config.Key[[]string]{Name: "format.output.fields", Default: []string{"value"}, Group: groupAiven, Check: fieldsOf,
		Doc: "Fields of records: key, value, offset, timestamp, headers."}, "output_fields")
	aivenEncoding = config.Key[string]{Name: "format.output.fields.value.encoding", Default: "base64", Importance: config.Low, Group: groupAiven, Check: config.OneOf("base64", "none"),
		Doc: "Whether csv has values in base64, or as they are."}
	aivenEnvelope = config.Key[bool]{Name: "format.output.envelope", Default: true, Importance: config.Low, Group: groupAiven,
		Doc: "Whether json, jsonl and parquet have an object of fields around the value; false needs the one field value."}
)

var aivenSettings = config.Define(aivenID, aivenSecret, aivenBucket, aivenRegion, aivenEndpoint, aivenPrefix, aivenPart, aivenSSE, aivenProvider, aivenRole, aivenSession, aivenExternal, aivenSTS,
	aivenDelay, aivenRetries, aivenName, aivenPrefixTemplate, aivenPack, aivenMax, aivenZone, aivenSource, aivenType, aivenFields, aivenEncoding, aivenEnvelope,
	aivenIDOld, aivenSecretOld, aivenBucketOld, aivenRegionOld, aivenEndpointOld, aivenPrefixOld, aivenPackOld, aivenZoneOld, aivenSourceOld, aivenFieldsOld).Ignoring(map[string]string{
	"aws.sts.role.session.duration": "a session is renewed before it ends, whatever its length",
	"aws.s3.backoff.max.delay.ms":   "pauses end at 20 seconds",
	"kafka.retry.backoff.ms":        "a task that failed for a cause that may pass is tried again by itself",
})

// aivenOld are the old names of keys by the new ones. Of two only one may be given.
var aivenOld = map[string]string{aivenID.Name: aivenIDOld.Name, aivenSecret.Name: aivenSecretOld.Name, aivenBucket.Name: aivenBucketOld.Name, aivenRegion.Name: aivenRegionOld.Name,
	aivenEndpoint.Name: aivenEndpointOld.Name, aivenPrefix.Name: aivenPrefixOld.Name, aivenPack.Name: aivenPackOld.Name, aivenZone.Name: aivenZoneOld.Name,
	aivenSource.Name: aivenSourceOld.Name, aivenFields.Name: aivenFieldsOld.Name}

// twice is what is wrong where a setting is given under both of its names.
func twice(v config.Values) (errs []*config.Error) {
	for _, key := range slices.Sorted(maps.Keys(aivenOld)) {
		if old := aivenOld[key]; v.Given(key) && v.Given(old) {
			errs = append(errs, &config.Error{Key: old, Value: v.Shown(old, v.Raw[old]), Reason: key + ", its new name, is given, too; remove this one"})
		}
	}
	return errs
}

func aTemplate(s string) error {
	_, err := parseTemplate(s)
	return err
}

func zoneOf(name string) (*time.Location, error) {
	if name == "Z" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, errors.New("it is no time zone; use UTC, or a name such as Europe/Berlin")
	}
	return zone, nil
}

func fieldsOf(fields []string) error {
	known := []string{"key", "value", "offset", "timestamp", "headers"}
	for i, f := range fields {
		if !slices.Contains(known, f) || slices.Contains(fields[:i], f) {
			return fmt.Errorf("%q is no field, or stands there twice; there are %s", f, strings.Join(known, ", "))
		}
	}
	if len(fields) == 0 {
		return errors.New("give one field or more")
	}
	return nil
}

// either is what is given under one of two names, or the default.
func either[T config.Value](v config.Values, k, old config.Key[T]) T {
	if !k.Has(v) && old.Has(v) {
		return old.Get(v)
	}
	return k.Get(v)
}

// translated are Aiven's settings as those of Sink.
type translated struct {
	v       config.Values
	options warehouse.Options
}

func translate(v config.Values) (*translated, []*config.Error) {
	errs := twice(v)
	if either(v, aivenBucket, aivenBucketOld) == "" {
		errs = append(errs, aivenBucket.Errorf(v, "it is needed"))
	}
	out, err := output(v)
	if err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	parsed, errs := settings.Parse(ofSink(v))
	if len(errs) == 0 {
		errs = crossRules(parsed)
	}
	return &translated{parsed, warehouse.Options{Output: out}}, ofAiven(v, errs)
}

// ofSink are the settings of Sink that stand for Aiven's.
func ofSink(v config.Values) map[string]string {
	raw := map[string]string{"aws.access.key.id": either(v, aivenID, aivenIDOld), "aws.secret.access.key": either(v, aivenSecret, aivenSecretOld).Reveal(),
		"s3.bucket.name": either(v, aivenBucket, aivenBucketOld), "s3.region": cmp.Or(either(v, aivenRegion, aivenRegionOld), "us-east-1"), "store.url": either(v, aivenEndpoint, aivenEndpointOld),
		"s3.part.size": strconv.FormatInt(aivenPart.Get(v), 10), "s3.ssea.name": aivenSSE.Get(v), "s3.retry.backoff.ms": strconv.FormatInt(aivenDelay.Get(v).Milliseconds(), 10),
		"s3.part.retries": strconv.Itoa(int(aivenRetries.Get(v))), "format.class": "JsonFormat", "flush.size": strconv.Itoa(cmp.Or(int(aivenMax.Get(v)), math.MaxInt32))}
	if role := aivenRole.Get(v); role != "" {
		raw["s3.credentials.provider.class"], raw[roleARN.Name] = assumeRole, role
		raw[roleSession.Name], raw[roleExternal.Name], raw[stsEndpoint.Name] = aivenSession.Get(v), aivenExternal.Get(v), aivenSTS.Get(v)
	}
	maps.DeleteFunc(raw, func(_, text string) bool { return text == "" })
	return raw
}

// aivenNames are Aiven's names of the keys of ofSink that have others there.
var aivenNames = map[string]string{bucketName.Name: aivenBucket.Name, region.Name: aivenRegion.Name, storeURL.Name: aivenEndpoint.Name, partSize.Name: aivenPart.Name, sse.Name: aivenSSE.Name,
	retryBackoff.Name: aivenDelay.Name, partRetries.Name: aivenRetries.Name, credentialsClass.Name: aivenRole.Name, roleARN.Name: aivenRole.Name, roleSession.Name: aivenSession.Name,
	roleExternal.Name: aivenExternal.Name, stsEndpoint.Name: aivenSTS.Name, "format.class": aivenType.Name, "flush.size": aivenMax.Name}

// ofAiven puts errors about Sink's keys under Aiven's: under the old names where those are given.
func ofAiven(v config.Values, errs []*config.Error) []*config.Error {
	for _, e := range errs {
		e.Key = cmp.Or(aivenNames[e.Key], e.Key)
		if old := aivenOld[e.Key]; v.Given(old) {
			e.Key = old
		}
	}
	return errs
}

// output is what files are.
func output(v config.Values) (*warehouse.Output, *config.Error) {
	prefix := aivenPrefixTemplate.Get(v)
	if prefix == "" {
		prefix = either(v, aivenPrefix, aivenPrefixOld)
	}
	o := &warehouse.Output{Type: strings.ToLower(aivenType.Get(v)), Fields: either(v, aivenFields, aivenFieldsOld), Raw: strings.EqualFold(aivenEncoding.Get(v), "none"),
		Pack: strings.ToLower(either(v, aivenPack, aivenPackOld)), Event: strings.EqualFold(either(v, aivenSource, aivenSourceOld), "event")}
	if !aivenEnvelope.Get(v) {
		if !slices.Equal(o.Fields, []string{"value"}) {
			return nil, aivenEnvelope.Errorf(v, "false needs the one field value in %s", aivenFields.Name)
		}
		o.Bare = o.Type != "csv" && o.Type != "avro"
	}
	name, err := parseTemplate(prefix + aivenName.Get(v))
	if err != nil {
		return nil, aivenName.Errorf(v, "%v", err)
	}
	zone, err := zoneOf(either(v, aivenZone, aivenZoneOld))
	if err != nil {
		return nil, aivenZone.Errorf(v, "%v", err)
	}
	ext := map[string]string{"gzip": ".gz", "snappy": ".snappy", "zstd": ".zst"}[o.Pack]
	o.Name = func(topic string, partition int32, first, ms int64) string {
		return name.name(topic, partition, first, time.UnixMilli(ms).In(zone)) + ext
	}
	return o, nil
}

type aivenSink struct {
	cc connectors.Context
	v  config.Values
}

var (
	_ connectors.Validator         = (*aivenSink)(nil)
	_ connectors.SinkOffsetAlterer = (*aivenSink)(nil)
	_ connectors.Checker           = (*aivenSink)(nil)
)

// Check implements connectors.Checker.
func (s *aivenSink) Check() []*config.Error {
	_, errs := translate(s.v)
	return errs
}

// AlterOffsets implements connectors.SinkOffsetAlterer: the group's offsets are all there are.
func (s *aivenSink) AlterOffsets(context.Context, map[connectors.TopicPartition]*int64) (bool, error) {
	return true, nil
}

// Tasks plans max copies: partitions are shared out among them.
func (s *aivenSink) Tasks(_ context.Context, max int) ([]map[string]string, error) {
	return connectors.Copies(s.v, max), nil
}

// Validate implements connectors.Validator: do the keys fit together, is the bucket there, may it be looked at?
func (s *aivenSink) Validate(ctx context.Context) []*config.Error {
	t, errs := translate(s.v)
	if len(errs) > 0 {
		return errs
	}
	return ofAiven(s.v, (&sink{s.cc, t.v}).Validate(ctx))
}

package s3

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema/config"
)

// The keys of the original sinks, as their references list them: each acts, or is ignored with a reason.
const (
	confluentKeys = `format.class flush.size rotate.interval.ms rotate.schedule.interval.ms schema.compatibility retry.backoff.ms shutdown.timeout.ms filename.offset.zero.pad.width
		avro.codec parquet.codec schema.cache.size schemas.cache.config enhanced.avro.schema.support connect.meta.data allow.optional.map.keys storage.class topics.dir store.url
		directory.delim file.delim partitioner.class partition.field.name partition.duration.ms path.format locale timezone timestamp.extractor timestamp.field partitioner.max.open.files
		hive.integration hive.metastore.uris hive.conf.dir hive.home hive.database
		s3.bucket.name s3.region s3.part.size s3.credentials.provider.class s3.credentials.provider.sts.role.arn s3.credentials.provider.sts.role.session.name
		s3.credentials.provider.sts.role.external.id s3.credentials.provider.sts.region aws.access.key.id aws.secret.access.key s3.ssea.name s3.sse.customer.key s3.sse.kms.key.id
		s3.acl.canned s3.wan.mode s3.path.style.access.enabled s3.compression.type s3.compression.level s3.part.retries s3.retry.backoff.ms s3.proxy.url s3.proxy.user s3.proxy.password
		s3.http.send.expect.continue s3.object.tagging s3.object.tagging.key.value.pairs s3.object.behavior.on.tagging.error s3.send.digest enable.conditional.writes
		format.bytearray.extension format.bytearray.separator json.decimal.format behavior.on.null.values report.null.values.to.dlq tombstone.encoded.partition store.kafka.keys
		store.kafka.headers keys.format.class headers.format.class rotate.file.on.partition.change max.write.duration.ms s3.schema.partition.affix.type
		s3.elastic.buffer.enable s3.elastic.buffer.init.capacity`
	aivenKeys = `aws.access.key.id aws.secret.access.key aws.credentials.provider aws_access_key_id aws_secret_access_key aws.s3.bucket.name aws.s3.region aws.s3.endpoint aws.s3.prefix
		aws_s3_bucket aws_s3_region aws_s3_endpoint aws_s3_prefix aws.s3.part.size.bytes aws.s3.sse.algorithm aws.sts.role.arn aws.sts.role.session.name aws.sts.role.session.duration
		aws.sts.role.external.id aws.sts.config.endpoint aws.s3.backoff.delay.ms aws.s3.backoff.max.delay.ms aws.s3.backoff.max.retries kafka.retry.backoff.ms file.name.template
		file.prefix.template file.compression.type output_compression file.max.records file.name.timestamp.timezone file.name.timestamp.source timestamp.timezone timestamp.source
		format.output.type format.output.fields output_fields format.output.fields.value.encoding format.output.envelope`
)

func TestEveryKeyOfTheOriginals(t *testing.T) {
	for name, c := range map[string]struct {
		keys    string
		def     config.Def
		ignored string // of keys; the others act
		want    int
	}{
		"Confluent's": {confluentKeys, settings, `retry.backoff.ms shutdown.timeout.ms schema.cache.size hive.integration hive.metastore.uris hive.conf.dir hive.home hive.database
			s3.http.send.expect.continue s3.object.behavior.on.tagging.error s3.send.digest report.null.values.to.dlq max.write.duration.ms s3.elastic.buffer.enable
			s3.elastic.buffer.init.capacity`, 78},
		"Aiven's": {aivenKeys, aivenSettings, `aws.sts.role.session.duration aws.s3.backoff.max.delay.ms kafka.retry.backoff.ms`, 38},
	} {
		keys := strings.Fields(c.keys)
		if len(keys) != c.want {
			t.Errorf("%s: %d keys, want %d", name, len(keys), c.want)
		}
		for _, key := range keys {
			_, acts := c.def.Info(key)
			notices := c.def.IgnoredIn(map[string]string{key: "x"})
			told := slices.ContainsFunc(notices, func(n config.Notice) bool { return len(n.Reason) > 10 })
			if ignored := slices.Contains(strings.Fields(c.ignored), key); acts == ignored || told != ignored {
				t.Errorf("%s %s: acts %v, is ignored with a reason %v; should be ignored %v", name, key, acts, told, ignored)
			}
		}
	}
}

// request is what a server was asked.
type request struct {
	method, host, url string
	header            http.Header
	body              string
}

// recorder is a server that says yes to everything and notes what it was asked.
type recorder struct {
	mu  sync.Mutex
	all []request
	url string
}

func record200(tb testing.TB) *recorder {
	tb.Helper()
	x := &recorder{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		x.mu.Lock()
		x.all = append(x.all, request{r.Method, r.Host, r.URL.String(), r.Header.Clone(), string(body)})
		x.mu.Unlock()
		switch {
		case strings.Contains(string(body), "Action=AssumeRole"):
			fmt.Fprint(w, `<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ROLEKEY</AccessKeyId><SecretAccessKey>rolesecret</SecretAccessKey><SessionToken>roletoken</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`)
		case r.Method == http.MethodPost && r.URL.Query().Has("uploads"):
			fmt.Fprint(w, `<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>`)
		case r.Method == http.MethodPost:
			fmt.Fprint(w, `<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>`)
		case r.Method == http.MethodGet:
			fmt.Fprint(w, `<ListMultipartUploadsResult></ListMultipartUploadsResult>`)
		default:
			w.Header().Set("ETag", `"e"`)
		}
	}))
	tb.Cleanup(srv.Close)
	x.url = srv.URL
	return x
}

// find is the first request that ok says yes to.
func (x *recorder) find(ok func(request) bool) (request, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.IndexFunc(x.all, ok)
	if i < 0 {
		return request{}, false
	}
	return x.all[i], true
}

// What versitygw does not tell apart is looked at in the requests.
func TestSettingsInRequests(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	put := func(r request) bool { return r.method == http.MethodPut }
	for _, c := range []struct {
		name  string
		pairs []string
		ok    func(r request) bool // finds the request
		want  map[string]string    // its headers
		check func(r request) bool
	}{
		{"encryption by the server", []string{"s3.ssea.name", "AES256"}, put, map[string]string{"X-Amz-Server-Side-Encryption": "AES256"}, nil},
		{"encryption with a key of the account", []string{"s3.ssea.name", "aws:kms", "s3.sse.kms.key.id", "arn:k"}, put, map[string]string{"X-Amz-Server-Side-Encryption": "aws:kms", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "arn:k"}, nil},
		{"encryption with a key of one's own", []string{"s3.ssea.name", "AES256", "s3.sse.customer.key", key}, put, map[string]string{"X-Amz-Server-Side-Encryption-Customer-Algorithm": "AES256", "X-Amz-Server-Side-Encryption-Customer-Key": key}, nil},
		{"a storage class", []string{"s3.storage.class", "standard_ia"}, put, map[string]string{"X-Amz-Storage-Class": "STANDARD_IA"}, nil},
		{"an ACL", []string{"s3.acl.canned", "bucket-owner-full-control"}, put, map[string]string{"X-Amz-Acl": "bucket-owner-full-control"}, nil},
		{"a checksum, and a condition", nil, put, map[string]string{"X-Amz-Sdk-Checksum-Algorithm": "CRC32", "If-None-Match": "*"}, func(r request) bool { return r.header.Get("X-Amz-Checksum-Crc32") != "" }},
		{"no condition", []string{"enable.conditional.writes", "false"}, put, map[string]string{"If-None-Match": ""}, nil},
		{"the bucket in the path", nil, put, nil, func(r request) bool { return strings.HasPrefix(r.url, "/bucket/f/t/") }},
		{"the bucket in the host", []string{"s3.path.style.access.enabled", "false", "store.url", "http://s3.example.com", "s3.proxy.url", "URL"}, put, nil, func(r request) bool { return strings.HasPrefix(r.url, "http://bucket.s3.example.com/f/t/") }},
		{"a proxy with a login", []string{"store.url", "http://s3.example.com", "s3.proxy.url", "URL", "s3.proxy.user", "me", "s3.proxy.password", "pass"}, put,
			map[string]string{"Proxy-Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("me:pass"))}, func(r request) bool { return strings.HasPrefix(r.url, "http://s3.example.com/bucket/f/") }},
		{"a role that is assumed", []string{"s3.credentials.provider.class", assumeRole, "s3.credentials.provider.sts.role.arn", "arn:aws:iam::1:role/r", "s3.credentials.provider.sts.role.external.id", "ext",
			"s3.credentials.provider.sts.role.session.name", "sess", "s3.credentials.provider.sts.region", "eu-west-3", "s3.credentials.provider.sts.endpoint", "URL"},
			func(r request) bool { return strings.Contains(r.body, "AssumeRole") }, nil, func(r request) bool {
				return strings.Contains(r.body, "RoleSessionName=sess") && strings.Contains(r.body, "ExternalId=ext") && strings.Contains(r.header.Get("Authorization"), "/eu-west-3/sts/")
			}},
		{"the role's credentials", []string{"s3.credentials.provider.class", assumeRole, "s3.credentials.provider.sts.role.arn", "arn:aws:iam::1:role/r", "s3.credentials.provider.sts.endpoint", "URL"}, put,
			map[string]string{"X-Amz-Security-Token": "roletoken"}, func(r request) bool { return strings.Contains(r.header.Get("Authorization"), "Credential=ROLEKEY/") }},
	} {
		x := record200(t)
		m := conf(&peers.S3Server{URL: x.url, AccessKey: "a", SecretKey: "s", Region: "eu-west-1", Bucket: "bucket"}, "f", "flush.size", "1")
		for i := 0; i < len(c.pairs); i += 2 {
			m[c.pairs[i]] = strings.ReplaceAll(c.pairs[i+1], "URL", x.url)
		}
		run := connectortest.NewSinkRun(t, Sink, nil, m, true, topic)
		run.Put(records(0, 1))
		if err := run.TryFlush(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		run.Close(false, topic)
		r, found := x.find(c.ok)
		for name, want := range c.want {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", c.name, name, got, want)
			}
		}
		if !found || c.check != nil && !c.check(r) {
			t.Errorf("%s: %s %s %s %v %s", c.name, r.method, r.host, r.url, slices.Sorted(maps.Keys(r.header)), r.body)
		}
	}
}

// Without keys, credentials come from the environment, and its token goes with them.
func TestCredentialsOfTheEnvironment(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "ENVKEY")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "envsecret")
	t.Setenv("AWS_SESSION_TOKEN", "envtoken")
	x := record200(t)
	m := conf(&peers.S3Server{URL: x.url, Region: "eu-west-1", Bucket: "bucket"}, "f", "flush.size", "1")
	delete(m, "aws.access.key.id")
	delete(m, "aws.secret.access.key")
	run := connectortest.NewSinkRun(t, Sink, nil, m, true, topic)
	run.Put(records(0, 1))
	if err := run.TryFlush(); err != nil {
		t.Error(err)
	}
	run.Close(false, topic)
	r, _ := x.find(func(r request) bool { return r.method == http.MethodPut })
	if !strings.Contains(r.header.Get("Authorization"), "Credential=ENVKEY/") || r.header.Get("X-Amz-Security-Token") != "envtoken" {
		t.Errorf("%s", r.header.Get("Authorization"))
	}
}

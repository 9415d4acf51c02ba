package s3

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
	"millrace/schema/config"
)

func aivenConf(s *peers.S3Server, folder string, pairs ...string) map[string]string {
	m := map[string]string{"aws.s3.bucket.name": s.Bucket, "aws.s3.region": s.Region, "aws.s3.endpoint": s.URL, "aws.access.key.id": s.AccessKey, "aws.secret.access.key": s.SecretKey,
		"aws.s3.prefix": folder + "/", "aws.s3.backoff.delay.ms": "5"}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
		if pairs[i+1] == "-" {
			delete(m, pairs[i])
		}
	}
	return m
}

// event is a record with all that Aiven's fields show.
func event(offset int64) schema.Record {
	r := schema.Record{KeySchema: schema.StringSchema, Key: schema.StringValue("k"), ValueSchema: schema.BytesSchema, Value: schema.BytesValue(fmt.Appendf(nil, "v%d", offset)),
		Headers: []schema.Header{{Key: "h", Value: schema.StringValue("x")}}}
	r = connectortest.At(r, topic, offset)
	r.Timestamp = time.Date(2026, 3, 4, 23, 30, 0, 0, time.UTC).UnixMilli()
	return r
}

func unpack(t *testing.T, name string, b []byte) string {
	t.Helper()
	var r io.Reader = bytes.NewReader(b)
	var err error
	switch {
	case strings.HasSuffix(name, ".gz"):
		r, err = gzip.NewReader(r)
	case strings.HasSuffix(name, ".zst"):
		r, err = zstd.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// An object is finished whenever offsets are committed, or when it has enough records.
func TestAivenObjects(t *testing.T) {
	s := peers.S3(t)
	b64 := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	fields := []string{"format.output.fields", "key,value,offset,timestamp,headers"}
	all := func(o int64) string {
		return fmt.Sprintf(`{"key":"k","value":"%s","offset":%d,"timestamp":"2026-03-04T23:30:00Z","headers":[{"key":"h","value":"x"}]}`, b64(fmt.Sprintf("v%d", o)), o)
	}
	for _, c := range []struct {
		name  string
		pairs []string
		want  map[string]string // of five records, committed once
	}{
		{"as by default", nil, map[string]string{"t-0-0.gz": b64("v0") + "\n" + b64("v1") + "\n" + b64("v2") + "\n" + b64("v3") + "\n" + b64("v4") + "\n"}},
		{"at most two records", []string{"file.max.records", "2", "file.compression.type", "none", "format.output.fields.value.encoding", "none"},
			map[string]string{"t-0-0": "v0\nv1\n", "t-0-2": "v2\nv3\n", "t-0-4": "v4\n"}},
		{"all fields of csv", append([]string{"file.max.records", "4", "file.compression.type", "zstd"}, fields...),
			map[string]string{"t-0-0.zst": strings.Join([]string{csvLine(0), csvLine(1), csvLine(2), csvLine(3), ""}, "\n"), "t-0-4.zst": csvLine(4) + "\n"}},
		{"lines of JSON", append([]string{"format.output.type", "jsonl", "file.compression.type", "none", "file.max.records", "3"}, fields...),
			map[string]string{"t-0-0": all(0) + "\n" + all(1) + "\n" + all(2) + "\n", "t-0-3": all(3) + "\n" + all(4) + "\n"}},
		{"a list of JSON", append([]string{"format.output.type", "json", "file.compression.type", "none", "file.max.records", "2"}, fields...),
			map[string]string{"t-0-0": "[\n" + all(0) + ",\n" + all(1) + "\n]", "t-0-2": "[\n" + all(2) + ",\n" + all(3) + "\n]", "t-0-4": "[\n" + all(4) + "\n]"}},
		{"values alone", []string{"format.output.type", "jsonl", "format.output.envelope", "false", "file.compression.type", "none"},
			map[string]string{"t-0-0": fmt.Sprintf("%q\n%q\n%q\n%q\n%q\n", b64("v0"), b64("v1"), b64("v2"), b64("v3"), b64("v4"))}},
		{"a name by a template, and old names of keys", []string{"file.name.template", "{{topic}}/{{timestamp:unit=yyyy}}-{{ timestamp : unit=MM }}-{{timestamp:unit=dd}}/{{partition:padding=true}}-{{start_offset:padding=true}}.csv",
			"timestamp.source", "event", "timestamp.timezone", "Asia/Tokyo", "output_compression", "none", "output_fields", "offset", "file.prefix.template", "-"},
			map[string]string{"t/2026-03-05/0000000000-00000000000000000000.csv": "0\n1\n2\n3\n4\n"}},
	} {
		folder := peers.Unique(t, "aiven")
		run := connectortest.NewSinkRun(t, Aiven, nil, aivenConf(s, folder, c.pairs...), true, topic)
		run.Put([]schema.Record{event(0), event(1), event(2), event(3), event(4)})
		run.FlushTo(topic, 5)
		run.Close(false, topic)
		got := map[string]string{}
		for name, b := range objects(t, s, folder) {
			got[name] = unpack(t, name, b)
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func csvLine(o int64) string {
	b64 := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return fmt.Sprintf("%s,%s,%d,2026-03-04T23:30:00Z,%s:%s;", b64("k"), b64(fmt.Sprintf("v%d", o)), o, b64("h"), b64("x"))
}

// What was written and not committed is written again, and the object of before gives way.
func TestAivenObjectsAreReplaced(t *testing.T) {
	s := peers.S3(t)
	folder := peers.Unique(t, "aiven")
	for _, n := range []int64{3, 7} {
		run := connectortest.NewSinkRun(t, Aiven, nil, aivenConf(s, folder, "file.compression.type", "none", "output_fields", "offset"), true, topic)
		for o := range n {
			run.Put([]schema.Record{event(o)})
		}
		run.FlushTo(topic, n)
		run.Close(true, topic)
	}
	if got := lines(objects(t, s, folder)); !slices.Equal(got, []string{"0", "1", "2", "3", "4", "5", "6"}) {
		t.Errorf("%q", got)
	}
}

func TestAivenSuite(t *testing.T) {
	server := peers.S3(t)
	connectortest.Sink(t, connectortest.SinkCase{Plugin: Aiven, New: func(tb testing.TB) connectortest.SinkTarget {
		folder := peers.Unique(tb, "suite")
		return connectortest.SinkTarget{
			Config: aivenConf(server, folder, "file.compression.type", "none", "format.output.fields.value.encoding", "none"),
			Record: func(_, text string) schema.Record {
				return schema.Record{ValueSchema: schema.BytesSchema, Value: schema.BytesValue([]byte(text))}
			},
			Stored: func(tb testing.TB) []string { return lines(objects(tb, server, folder)) },
			Poison: func() schema.Record {
				return schema.Record{ValueSchema: schema.Int64Schema, Value: schema.Int64Value(1)}
			},
		}
	}})
}

func TestAivenSettingsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		pairs     []string
		key, want string
	}{
		{nil, "", ""},
		{[]string{"file.name.template", "{{topic}}-{{partition}}"}, "file.name.template", "start_offset"},
		{[]string{"file.name.template", "{{key}}"}, "file.name.template", "one file for each key"},
		{[]string{"file.name.template", "{{topic}}-{{partition}}-{{start_offset}}-{{timestamp:unit=mm}}"}, "file.name.template", "unit=yyyy"},
		{[]string{"file.name.template", "{{topic}}-{{partition}}-{{start_offset"}, "file.name.template", "has no }}"},
		{[]string{"format.output.fields", "key,key"}, "format.output.fields", "twice"},
		{[]string{"format.output.envelope", "false", "format.output.fields", "key"}, "format.output.envelope", "one field value"},
		{[]string{"aws.s3.bucket.name", "-"}, "aws.s3.bucket.name", "needed"},
		{[]string{"aws.secret.access.key", "-"}, "aws.secret.access.key", ""},
		{[]string{"aws.secret.access.key", "-", "aws.access.key.id", "-", "aws_access_key_id", "a"}, "aws.secret.access.key", "set both or neither"},
		{[]string{"aws.secret.access.key", "-", "aws.access.key.id", "-", "aws_secret_access_key", "s"}, "aws.access.key.id", "set both or neither"},
		{[]string{"aws.secret.access.key", "-", "aws_access_key_id", "", "aws.access.key.id", "-", "aws_secret_access_key", "s"}, "aws_access_key_id", "set both or neither"},
		{[]string{"file.name.timestamp.timezone", "Mars"}, "file.name.timestamp.timezone", "zone"},
	} {
		m := aivenConf(&peers.S3Server{URL: "http://127.0.0.1:1", AccessKey: "a", SecretKey: "s", Region: "r", Bucket: "b"}, "f", c.pairs...)
		errs := aivenErrors(t, m)
		switch {
		case c.key == "" && len(errs) > 0:
			t.Errorf("%v", errs)
		case c.key != "" && (len(errs) == 0 || errs[0].Key != c.key || !strings.Contains(errs[0].Error(), c.want)):
			t.Errorf("%v: %v", c.pairs, errs)
		}
	}
}

// aivenErrors is what is wrong with settings.
func aivenErrors(t *testing.T, conf map[string]string) []*config.Error {
	t.Helper()
	v, errs := aivenSettings.Parse(conf)
	if len(errs) > 0 {
		return errs
	}
	sink, err := Aiven.New(connectors.Context{}, v)
	if err != nil {
		t.Fatal(err)
	}
	return sink.(connectors.Checker).Check()
}

func TestASettingUnderBothOfItsNames(t *testing.T) {
	good := map[string]string{"aws.access.key.id": "a", "aws.secret.access.key": "verysecret", "aws.s3.bucket.name": "b", "aws.s3.region": "r", "aws.s3.endpoint": "http://127.0.0.1:1", "aws.s3.prefix": "p",
		"file.compression.type": "none", "file.name.timestamp.timezone": "UTC", "file.name.timestamp.source": "event", "format.output.fields": "value"}
	if errs := aivenErrors(t, good); len(errs) > 0 {
		t.Fatal(errs)
	}
	if len(good) != len(aivenOld) {
		t.Fatalf("%d keys have an old name, and %d are tried", len(aivenOld), len(good))
	}
	for key, text := range good {
		old := aivenOld[key]
		both := maps.Clone(good)
		both[old] = text
		errs := aivenErrors(t, both)
		if len(errs) != 1 || errs[0].Key != old || !strings.Contains(errs[0].Error(), key+", its new name, is given, too; remove this one") || strings.Contains(errs[0].Error(), "verysecret") {
			t.Errorf("%s and %s: %v", key, old, errs)
		}
		v, _ := aivenSettings.Parse(both)
		if _, err := Aiven.NewTask(connectors.Context{}, v); err == nil || !strings.Contains(err.Error(), old) {
			t.Errorf("%s and %s: a task is made: %v", key, old, err)
		}
	}
}

// Whatever Sink finds wrong with what it is given stands under a key that this connector has, and that was given where it could be.
func TestErrorsStandUnderAivensKeys(t *testing.T) {
	given := aivenConf(&peers.S3Server{URL: "http://127.0.0.1:1", AccessKey: "a", SecretKey: "s", Region: "r"}, "f", "aws_s3_bucket", "b", "aws.s3.sse.algorithm", "AES256", "aws.sts.role.arn", "arn",
		"aws.sts.role.session.name", "n", "aws.sts.role.external.id", "x", "aws.sts.config.endpoint", "http://127.0.0.1:1", "file.max.records", "5")
	delete(given, "aws.s3.bucket.name")
	v, errs := aivenSettings.Parse(given)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	raw := ofSink(v)
	for name := range aivenNames {
		if raw[name] == "" {
			t.Errorf("%s is never set", name)
		}
	}
	for name := range raw {
		got := ofAiven(v, []*config.Error{{Key: name}})[0].Key
		if _, there := aivenSettings.Info(got); !there || name == "s3.bucket.name" && got != "aws_s3_bucket" {
			t.Errorf("what is wrong with %s stands under %s", name, got)
		}
	}
	v, _ = aivenSettings.Parse(aivenConf(&peers.S3Server{AccessKey: "a", SecretKey: "s", Region: "r", Bucket: "b"}, "f", "aws.s3.endpoint", "-", "aws_s3_endpoint", "http://127.0.0.1:1"))
	errs = (&aivenSink{connectors.Context{Log: slog.New(slog.DiscardHandler)}, v}).Validate(t.Context())
	if len(errs) != 1 || errs[0].Key != "aws_s3_endpoint" {
		t.Errorf("%v", errs)
	}
}

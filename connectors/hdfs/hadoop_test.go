package hdfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/schema/config"
)

// hadoopFiles makes a folder with a core-site.xml and an hdfs-site.xml of properties, name and value in turn.
func hadoopFiles(tb testing.TB, core, site []string) string {
	tb.Helper()
	dir := tb.TempDir()
	for name, pairs := range map[string][]string{"core-site.xml": core, "hdfs-site.xml": site} {
		var b strings.Builder
		b.WriteString("<?xml version=\"1.0\"?>\n<configuration>\n")
		for i := 0; i < len(pairs); i += 2 {
			b.WriteString("<property><name>" + pairs[i] + "</name><value> " + pairs[i+1] + "\n</value></property>\n")
		}
		b.WriteString("</configuration>\n")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

var twoNameNodes = []string{"dfs.nameservices", "shop, other", "dfs.ha.namenodes.shop", "a,b", "dfs.namenode.rpc-address.shop.a", "${host}:9000", "dfs.namenode.rpc-address.shop.b", "two",
	"dfs.namenode.rpc-address.other", "three:9001", "host", "one"}

func TestWhereTheNameNodesAre(t *testing.T) {
	ha := hadoopFiles(t, []string{"fs.defaultFS", "hdfs://shop/base"}, twoNameNodes)
	lame := hadoopFiles(t, nil, []string{"dfs.nameservices", "shop", "dfs.ha.namenodes.shop", "a"})
	for _, c := range []struct {
		name   string
		pairs  []string
		want   string // addresses and folder
		key    string // else
		reason string
	}{
		{"one host", []string{"hdfs.url", "hdfs://nn:9000"}, "nn:9000", "", ""},
		{"its port is 8020", []string{"store.url", "hdfs://nn/data/x/"}, "nn:8020 /data/x", "", ""},
		{"two hosts", []string{"hdfs.url", "hdfs://a:1,b"}, "a:1 b:8020", "", ""},
		{"a name service", []string{"hdfs.url", "hdfs://shop", "hadoop.conf.dir", ha}, "one:9000 two:8020", "", ""},
		{"a name service of one", []string{"hdfs.url", "hdfs://other", "hadoop.conf.dir", ha}, "three:9001", "", ""},
		{"a host that is no name service", []string{"hdfs.url", "hdfs://one:9000", "hadoop.conf.dir", ha}, "one:9000", "", ""},
		{"fs.defaultFS", []string{"hadoop.conf.dir", ha}, "one:9000 two:8020 /base", "", ""},
		{"nothing", nil, "", "hdfs.url", "fs.defaultFS"},
		{"two that differ", []string{"hdfs.url", "hdfs://a", "store.url", "hdfs://b"}, "", "store.url", "one of them"},
		{"no fs.defaultFS", []string{"hadoop.conf.dir", lame}, "", "hadoop.conf.dir", "fs.defaultFS"},
		{"a name service without addresses", []string{"hdfs.url", "hdfs://shop", "hadoop.conf.dir", lame}, "", "hdfs.url", "dfs.namenode.rpc-address.shop.a"},
		{"no folder", []string{"hdfs.url", "hdfs://a", "hadoop.conf.dir", filepath.Join(lame, "none")}, "", "hadoop.conf.dir", "core-site.xml"},
		{"another scheme", []string{"hdfs.url", "webhdfs://a:9870"}, "", "hdfs.url", "webhdfs"},
		{"no scheme", []string{"store.url", "a"}, "", "store.url", "hdfs://host:8020"},
		{"a list of no hosts", []string{"hdfs.url", "hdfs://,"}, "", "hdfs.url", "names no NameNode"},
		{"fs.defaultFS with a list of no hosts", []string{"hadoop.conf.dir", hadoopFiles(t, []string{"fs.defaultFS", "hdfs://,,/x"}, nil)}, "", "hadoop.conf.dir", "names no NameNode"},
		{"no host", []string{"hdfs.url", "hdfs:///x"}, "", "hdfs.url", "names no NameNode"},
		{"Kerberos without a keytab", []string{"hdfs.url", "hdfs://a", "hdfs.authentication.kerberos", "true", "connect.hdfs.principal", "me@X", "hdfs.namenode.principal", "nn/_HOST@X"}, "", "connect.hdfs.keytab", "needs it"},
		{"Kerberos without the NameNode's principal", []string{"hdfs.url", "hdfs://a", "hdfs.authentication.kerberos", "true", "connect.hdfs.principal", "me@X", "connect.hdfs.keytab", "/x"}, "", "hdfs.namenode.principal", "dfs.namenode.kerberos.principal"},
		{"Kerberos that is not asked for", []string{"hdfs.url", "hdfs://a", "hadoop.conf.dir", hadoopFiles(t, []string{"hadoop.security.authentication", "kerberos"}, nil)}, "", "hdfs.authentication.kerberos", "set it true"},
		{"a group without an expression", []string{"hdfs.url", "hdfs://a", "topics.dir", "x/${1}"}, "", "topic.capture.groups.regex", "no expression"},
		{"an expression that is none", []string{"hdfs.url", "hdfs://a", "topic.capture.groups.regex", "("}, "", "topic.capture.groups.regex", ""},
		{"another storage", []string{"hdfs.url", "hdfs://a", "storage.class", "io.confluent.connect.s3.storage.S3Storage"}, "", "storage.class", "HdfsStorage"},
		{"records without a folder", []string{"hdfs.url", "hdfs://a", "logs.dir", "/"}, "", "logs.dir", "commits lie"},
	} {
		raw := map[string]string{"flush.size": "1"}
		for i := 0; i < len(c.pairs); i += 2 {
			raw[c.pairs[i]] = c.pairs[i+1]
		}
		v, errs := Sink3.Config.Parse(raw)
		var at *cluster
		if len(errs) == 0 {
			errs = crossRules(v)
		}
		if len(errs) == 0 {
			var wrong *config.Error
			if at, wrong = newCluster(contextOf(t), v); wrong != nil {
				errs = append(errs, wrong)
			}
		}
		if c.key != "" {
			if len(errs) != 1 || errs[0].Key != c.key || !strings.Contains(errs[0].Error(), c.reason) {
				t.Errorf("%s: %v", c.name, errs)
			}
			continue
		}
		if len(errs) > 0 {
			t.Errorf("%s: %v", c.name, errs)
			continue
		}
		if got := strings.TrimSpace(strings.Join(at.options.Addresses, " ") + " " + at.folder); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestPropertiesOfHadoop(t *testing.T) {
	dir := hadoopFiles(t, []string{"a", "1", "b", "${a}-${env.MILLRACE_TEST_B}", "c", "${c}", "d", "${none}", "ms", "1500", "unit", "2m", "bad", "soon", "size", "128M", "fs.permissions.umask-mode", "027"},
		[]string{"a", "2", "plain", "512"})
	t.Setenv("MILLRACE_TEST_B", "x")
	c, err := readHadoopConf(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "2", "b": "2-x", "c": "${c}", "d": "${none}", "e": ""} {
		if got := c.get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := []time.Duration{c.duration("ms", 1), c.duration("unit", 1), c.duration("bad", 1), c.duration("e", 1)}; !slices.Equal(got, []time.Duration{1500 * time.Millisecond, 2 * time.Minute, 1, 1}) {
		t.Errorf("times %v", got)
	}
	if got := []int64{c.size("size"), c.size("plain"), c.size("bad"), c.size("e")}; !slices.Equal(got, []int64{128 << 20, 512, 0, 0}) {
		t.Errorf("sizes %v", got)
	}
	if c.umask() != 0o027 {
		t.Errorf("umask %o", c.umask())
	}
	if err := c.parse([]byte(`<configuration><property><name>a</name><value>3</value><final>true</final></property></configuration>`)); err != nil {
		t.Fatal(err)
	}
	if err := c.parse([]byte(`<configuration><property><name>a</name><value>4</value></property></configuration>`)); err != nil || c.get("a") != "3" {
		t.Errorf("a final property is %q: %v", c.get("a"), err)
	}
	for text, want := range map[string]string{"": "EOF", "<x/>": "configuration", `<configuration><xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="/etc/passwd"/></configuration>`: "another file"} {
		if err := c.parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Every key of the originals works, or is ignored with a reason.
func TestEveryKeyIsKnown(t *testing.T) {
	for _, p := range []map[string]string{Sink2.Config.Ignored(), Sink3.Config.Ignored()} {
		for key, reason := range p {
			if len(reason) < 10 {
				t.Errorf("%s is ignored because %q", key, reason)
			}
		}
	}
	ignored := strings.Fields(`hadoop.home kerberos.ticket.renew.period.ms retry.backoff.ms shutdown.timeout.ms schema.cache.size
		hive.integration hive.metastore.uris hive.conf.dir hive.home hive.database hive.table.name`)
	for _, key := range strings.Fields(`hdfs.url store.url hadoop.conf.dir hadoop.home logs.dir topics.dir hdfs.authentication.kerberos connect.hdfs.principal
		connect.hdfs.keytab hdfs.namenode.principal kerberos.ticket.renew.period.ms topic.capture.groups.regex storage.class format.class flush.size
		rotate.interval.ms rotate.schedule.interval.ms schema.compatibility retry.backoff.ms shutdown.timeout.ms filename.offset.zero.pad.width avro.codec parquet.codec
		schema.cache.size schemas.cache.config enhanced.avro.schema.support connect.meta.data allow.optional.map.keys directory.delim file.delim partitioner.class
		partition.field.name partition.duration.ms path.format locale timezone timestamp.extractor timestamp.field partitioner.max.open.files
		hive.integration hive.metastore.uris hive.conf.dir hive.home hive.database hive.table.name`) {
		for _, d := range []config.Def{Sink2.Config, Sink3.Config} {
			v, _ := d.Parse(map[string]string{key: "x"})
			_, acts := d.Info(key)
			if want := slices.Contains(ignored, key); acts == want || (len(v.Ignored()) == 1) != want {
				t.Errorf("%s acts: %v, is ignored with a reason: %v; should be ignored: %v", key, acts, len(v.Ignored()) == 1, want)
			}
		}
	}
}

func TestFoldersOfTopics(t *testing.T) {
	for _, c := range []struct{ dir, regex, topic, want string }{
		{"topics", "", "t", "topics"},
		{"/user/me/", "", "t", "user/me"},
		{"a/${topic}/b", "", "x.y", "a/x.y/b"},
		{"${1}/in/${2}0", `(\w+)\.(\w+)`, "pre-shop.orders.v1", "shop/in/orders0"},
		{`$x\${1}`, `(.*)`, "t", `$x\t`},
		{"${1}", `(\d+)`, "none", "error: is not found"},
		{"${a}", `(.)`, "none", "error: without a number"},
		{"${9}", `(.)`, "none", "error: "},
	} {
		v, _ := Sink2.Config.Parse(map[string]string{"topic.capture.groups.regex": c.regex, "flush.size": "1"})
		tt := &target{v: v}
		if c.regex != "" {
			var err error
			if tt.regex, err = compileTopic(c.regex); err != nil {
				t.Fatal(err)
			}
		}
		got, err := expand(c.dir, c.topic, tt.regex)
		if want, failed := strings.CutPrefix(c.want, "error: "); failed != (err != nil) || failed && !strings.Contains(err.Error(), want) || !failed && got != c.want {
			t.Errorf("%s of %s: %q, %v", c.dir, c.topic, got, err)
		}
	}
}

func TestLogsOfConfluentsSink(t *testing.T) {
	long := "hdfs://nn:8020//" + strings.Repeat("d", 300)
	whole := logOf("BEGIN", "", "hdfs://nn:8020/a", "/b", long, "hdfs://nn/c", "END", "", "BEGIN", "", "/x", "/y")
	got, err := parseLog(whole)
	if err != nil || !slices.Equal(got, []move{{"/a", "/b"}, {"/" + strings.Repeat("d", 300), "/c"}}) {
		t.Errorf("%v, %v", got, err)
	}
	for n := range whole { // cut off anywhere it is whole up to there
		got, err := parseLog(whole[:n])
		if n > 0 && n < 20 {
			if err == nil {
				t.Errorf("%d bytes are a log", n)
			}
		} else if err != nil || len(got) != 0 && len(got) != 2 {
			t.Errorf("%d bytes: %v, %v", n, got, err)
		}
	}
	for _, bad := range [][]byte{[]byte("SEQ\x06567890123456789012345"), append(slices.Clone(whole[:20]), 0xff, 0xff, 0xff, 0xfe), append(slices.Clone(whole[:20]), make([]byte, 8)...),
		logOf("BEGIN", "", "no path", "/b")} {
		if _, err := parseLog(bad); err == nil {
			t.Errorf("%q is a log", bad)
		}
	}
}

func FuzzLog(f *testing.F) {
	f.Add(logOf("BEGIN", "", "hdfs://nn:8020/a", "/b", "END", ""))
	f.Add([]byte("WAL\x000123456789abcdef\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		moves, _ := parseLog(b)
		for _, m := range moves {
			if !strings.HasPrefix(m.Temporary, "/") || !strings.HasPrefix(m.Final, "/") {
				t.Errorf("%v", m)
			}
		}
	})
}

func FuzzHadoopConf(f *testing.F) {
	f.Add([]byte("<configuration><property><name>a</name><value>${a}${b}</value></property></configuration>"), "a")
	f.Add([]byte("<configuration><property><name>dfs.ha.namenodes.a</name><value>,</value></property></configuration>"), "a")
	f.Add([]byte("<configuration><property><name>dfs.nameservices</name><value>a</value></property><property><name>dfs.namenode.rpc-address.a</name><value>b</value></property></configuration>"), "a")
	f.Add([]byte("<configuration/>"), "a,b:1")
	f.Add([]byte("<configuration/>"), ",")
	f.Fuzz(func(t *testing.T, b []byte, authority string) {
		c := hadoopConf{map[string]string{}, map[string]bool{}}
		_ = c.parse(b)
		for name := range c.values {
			_, _, _ = c.get(name), c.size(name), c.duration(name, 1)
		}
		addresses, err := c.nameNodes(authority)
		if err == nil && len(addresses) == 0 {
			t.Errorf("%q has no addresses, and no error", authority)
		}
		for _, address := range addresses {
			if !strings.Contains(address, ":") {
				t.Errorf("%q has the address %q", authority, address)
			}
		}
	})
}

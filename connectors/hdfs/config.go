package hdfs

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"millrace/connectors"
	"millrace/connectors/warehouse"
	"millrace/schema/config"
	"millrace/schema/javatext"
)

const (
	groupHDFS     = "HDFS"
	groupSecurity = "Security"
)

var (
	hdfsURL = config.Key[string]{Name: "hdfs.url", Importance: config.High, Group: groupHDFS, Check: checkURL,
		Doc: "Where the NameNode is: hdfs://host:8020; hdfs://one:8020,two:8020 where one of two is active; hdfs://name for a name service of hadoop.conf.dir. A folder may follow, below which all else lies."}
	storeURL = config.Key[string]{Name: "store.url", Importance: config.High, Group: groupHDFS, Check: checkURL,
		Doc: "The same as hdfs.url. Where neither is set, fs.defaultFS of hadoop.conf.dir is taken."}
	confDir = config.Key[string]{Name: "hadoop.conf.dir", EmptyDefault: true, Importance: config.High, Group: groupHDFS,
		Doc: "Folder with Hadoop's core-site.xml and hdfs-site.xml: addresses of name services, protection of data, timeouts, umask."}
	userName = config.Key[string]{Name: "hdfs.user.name", EmptyDefault: true, Importance: config.Low, Group: groupHDFS,
		Doc: "Who the connector is where there is no Kerberos; without it HADOOP_USER_NAME of the worker's environment, or the worker's own user. A key of Millrace's own."}
	logsDir = config.Key[string]{Name: "logs.dir", Default: "logs", Importance: config.High, Group: groupHDFS,
		Check: func(s string) error {
			if strings.Trim(s, "/") == "" {
				return errors.New("it must name a folder: commits lie there")
			}
			return nil
		},
		Doc: "Folder of commits that are under way, and of what says up to where partitions are written."}
	topicRegex = config.Key[string]{Name: "topic.capture.groups.regex", Importance: config.Low, Group: groupHDFS, Check: func(s string) error { _, err := compileTopic(s); return err },
		Doc: "Expression that is found in a topic's name; topics.dir and logs.dir may name its groups: ${1}, ${2} …"}
	storageClass = config.Key[config.Class]{Name: "storage.class", Default: "io.confluent.connect.hdfs.storage.HdfsStorage", Importance: config.Low, Group: groupHDFS,
		Check: func(c config.Class) error {
			if !strings.HasSuffix(string(c), "HdfsStorage") {
				return errors.New("this connector writes to HDFS; set io.confluent.connect.hdfs.storage.HdfsStorage")
			}
			return nil
		},
		Doc: "Where files go; always HDFS here."}

	kerberos = config.Key[bool]{Name: "hdfs.authentication.kerberos", Importance: config.High, Group: groupSecurity,
		Doc: "Whether HDFS wants Kerberos. The realm's servers are read from KRB5_CONFIG or /etc/krb5.conf."}
	principal = config.Key[string]{Name: "connect.hdfs.principal", EmptyDefault: true, Importance: config.High, Group: groupSecurity,
		Doc: "Principal of the connector, such as connect/_HOST@EXAMPLE.COM; _HOST stands for the worker's host."}
	keytabFile = config.Key[string]{Name: "connect.hdfs.keytab", EmptyDefault: true, Importance: config.High, Group: groupSecurity,
		Doc: "File with the key of connect.hdfs.principal."}
	namenodePrincipal = config.Key[string]{Name: "hdfs.namenode.principal", EmptyDefault: true, Importance: config.High, Group: groupSecurity,
		Doc: "Principal of the NameNode, such as nn/_HOST@EXAMPLE.COM; dfs.namenode.kerberos.principal of hadoop.conf.dir where it is not set."}
)

var settings = config.Define(hdfsURL, storeURL, confDir, userName, logsDir, topicRegex, storageClass, kerberos, principal, keytabFile, namenodePrincipal).
	Merge(warehouse.SettingsWithFormat("io.confluent.connect.hdfs.avro.AvroFormat")).Ignoring(map[string]string{
	"hadoop.home":                     "there are no native libraries of Hadoop here",
	"kerberos.ticket.renew.period.ms": "tickets are renewed in time before they end",
	"hive.*":                          "there is no Hive metastore here; folders of name=value are found by Hive (MSCK REPAIR TABLE), Spark, Trino and DuckDB",
})

func checkURL(s string) error {
	if s == "" {
		return nil
	}
	_, err := parseURL(s)
	return err
}

// A place is an address: an authority, and a folder without / at its ends.
type place struct{ authority, folder string }

func parseURL(s string) (place, error) {
	rest, ok := strings.CutPrefix(s, "hdfs://")
	if !ok {
		scheme, _, found := strings.Cut(s, ":")
		if !found {
			scheme = "no"
		}
		return place{}, fmt.Errorf("it has the scheme %.20s; only hdfs://host:8020 is spoken (no WebHDFS, ViewFS or object store)", scheme)
	}
	authority, folder, _ := strings.Cut(rest, "/")
	if authority == "" || strings.ContainsAny(authority, "@ \t") {
		return place{}, errors.New("it names no NameNode; write it as hdfs://host:8020 or hdfs://nameservice")
	}
	return place{authority, strings.Trim(folder, "/")}, nil
}

// compileTopic makes the expression of topic.capture.groups.regex match a whole topic's name, whose groups are the expression's.
func compileTopic(pattern string) (*javatext.Regexp, error) {
	if _, err := javatext.Compile(pattern); err != nil { // as it was written
		return nil, err
	}
	return javatext.Compile(`\A.*?(?:` + pattern + `).*\z`)
}

// url is hdfs.url or store.url, empty where neither is set.
func url(v config.Values) string {
	if u := hdfsURL.Get(v); u != "" {
		return u
	}
	return storeURL.Get(v)
}

// crossRules are the rules that bind several keys.
func crossRules(v config.Values) []*config.Error {
	errs := warehouse.Check(v, warehouse.Options{})
	switch a, b := hdfsURL.Get(v), storeURL.Get(v); {
	case a == "" && b == "" && confDir.Get(v) == "":
		errs = append(errs, hdfsURL.Errorf(v, "one of %s and %s is needed, or %s whose core-site.xml has fs.defaultFS", hdfsURL.Name, storeURL.Name, confDir.Name))
	case a != "" && b != "" && a != b:
		errs = append(errs, storeURL.Errorf(v, "%s says otherwise; set one of them", hdfsURL.Name))
	}
	if kerberos.Get(v) {
		for _, key := range []config.Key[string]{principal, keytabFile} {
			if key.Get(v) == "" {
				errs = append(errs, key.Errorf(v, "%s=true needs it", kerberos.Name))
			}
		}
	}
	for _, dir := range []string{strings.TrimSuffix(warehouse.TopicFolder(v, ""), "/"), logsDir.Get(v)} {
		if _, err := expand(dir, "topic", nil); topicRegex.Get(v) == "" && err != nil {
			errs = append(errs, topicRegex.Errorf(v, "%q names a group, and there is no expression; set %s", dir, topicRegex.Name))
		}
	}
	return errs
}

// expand puts a topic's name, and the groups of its match, into a folder's name: ${topic}, ${1} … An error is one of configuration.
func expand(dir, topic string, r *javatext.Regexp) (string, error) {
	if dir = strings.ReplaceAll(dir, "${topic}", topic); !strings.Contains(dir, "${") {
		return strings.Trim(dir, "/"), nil
	}
	if r == nil {
		return "", connectors.BadConfig(fmt.Errorf("%q names a group, and %s is not set", dir, topicRegex.Name))
	}
	ok, err := r.MatchWhole(topic)
	if err == nil && !ok {
		err = fmt.Errorf("%s is not found in the name of topic %q, and %q wants its groups", topicRegex.Name, topic, dir)
	}
	if err != nil {
		return "", connectors.BadConfig(err)
	}
	var b strings.Builder // as Java's replacements are written: $1, and \ before what is meant as it stands
	for rest := dir; rest != ""; {
		before, group, found := strings.Cut(rest, "${")
		b.WriteString(strings.NewReplacer(`\`, `\\`, `$`, `\$`).Replace(before))
		if !found {
			break
		}
		number, after, closed := strings.Cut(group, "}")
		if !closed || strings.Trim(number, "0123456789") != "" || number == "" {
			return "", connectors.BadConfig(fmt.Errorf("%q has a ${ without a number and a }; write ${1}", dir))
		}
		b.WriteString("$" + number)
		if rest = after; rest != "" && rest[0] >= '0' && rest[0] <= '9' { // $1 and a digit would be another group
			b.WriteByte('\\')
			b.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	out, err := r.ReplaceFirst(topic, b.String())
	if err != nil {
		return "", connectors.BadConfig(fmt.Errorf("%q: %w", dir, err))
	}
	return strings.Trim(out, "/"), nil
}

// whoAmI is the user of a connector without Kerberos.
func whoAmI(v config.Values) (string, error) {
	if u := userName.Get(v); u != "" {
		return u, nil
	}
	if u := os.Getenv("HADOOP_USER_NAME"); u != "" {
		return u, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", connectors.BadConfig(fmt.Errorf("the worker's own user is not known (%w); set %s", err, userName.Name))
	}
	return u.Username, nil
}

package hdfs

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/connectors"
)

// hadoopConf is what Hadoop's own files say.
type hadoopConf struct {
	values map[string]string
	final  map[string]bool // not changed by later files
}

// maxXML bounds a configuration file.
const maxXML = 16 << 20

// readHadoopConf reads core-site.xml and hdfs-site.xml of a folder; an empty one has none.
func readHadoopConf(files connectors.Files, dir string) (hadoopConf, error) {
	conf := hadoopConf{map[string]string{}, map[string]bool{}}
	if dir == "" {
		return conf, nil
	}
	found := 0
	for _, name := range []string{"core-site.xml", "hdfs-site.xml"} {
		path := filepath.Join(dir, name)
		if files != nil {
			var err error
			if path, err = files.Check(path); err != nil {
				return conf, err
			}
		}
		err := conf.read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return conf, fmt.Errorf("read %s: %w", path, err)
		}
		found++
	}
	if found == 0 {
		return conf, fmt.Errorf("there is neither core-site.xml nor hdfs-site.xml in %s", dir)
	}
	return conf, nil
}

func (c hadoopConf) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxXML+1))
	if err != nil {
		return err
	}
	if len(b) > maxXML {
		return errors.New("it is larger than 16 MiB")
	}
	return c.parse(b)
}

// parse adds the properties of a configuration file. A property that an earlier one calls final stays as it is.
func (c hadoopConf) parse(b []byte) error {
	var list struct {
		XMLName  xml.Name `xml:"configuration"`
		Property []struct {
			Name  string `xml:"name"`
			Value string `xml:"value"`
			Final string `xml:"final"`
		} `xml:"property"`
		Include []struct{} `xml:"http://www.w3.org/2001/XInclude include"`
	}
	if err := xml.Unmarshal(b, &list); err != nil {
		return err
	}
	if len(list.Include) > 0 {
		return errors.New("it includes another file (xi:include), which is not read; put its properties here")
	}
	for _, p := range list.Property {
		name := strings.TrimSpace(p.Name)
		if !c.final[name] {
			c.values[name], c.final[name] = strings.TrimSpace(p.Value), strings.EqualFold(strings.TrimSpace(p.Final), "true")
		}
	}
	return nil
}

// get is a property with ${other} put in, as Hadoop does: 20 deep at most, and left as it stands where there is none.
func (c hadoopConf) get(name string) string {
	v := c.values[name]
	for range 20 {
		from := strings.Index(v, "${")
		if from < 0 {
			break
		}
		n := strings.IndexByte(v[from:], '}')
		if n < 0 {
			break
		}
		inner, ok := c.values[v[from+2:from+n]]
		if env, isEnv := strings.CutPrefix(v[from+2:from+n], "env."); !ok && isEnv {
			inner, ok = os.LookupEnv(env)
		}
		if !ok {
			break
		}
		if v = v[:from] + inner + v[from+n+1:]; len(v) > 1<<16 {
			break
		}
	}
	return v
}

// first is the first property that is set.
func (c hadoopConf) first(names ...string) string {
	for _, name := range names {
		if v := c.get(name); v != "" {
			return v
		}
	}
	return ""
}

// duration is a property of milliseconds, or with a unit as Hadoop writes it (30s).
func (c hadoopConf) duration(name string, otherwise time.Duration) time.Duration {
	v := c.get(name)
	if ms, err := strconv.ParseInt(v, 10, 64); err == nil && ms > 0 && ms < 1<<40 {
		return time.Duration(ms) * time.Millisecond
	}
	if d, err := time.ParseDuration(v); err == nil && d > 0 {
		return d
	}
	return otherwise
}

// umask is fs.permissions.umask-mode, in octal.
func (c hadoopConf) umask() os.FileMode {
	if n, err := strconv.ParseUint(c.get("fs.permissions.umask-mode"), 8, 16); err == nil {
		return os.FileMode(n) & os.ModePerm
	}
	return 0o022
}

// size is a property of bytes, or with a unit as Hadoop writes it (128m); 0 where it is not set.
func (c hadoopConf) size(name string) int64 {
	v := strings.ToLower(c.get(name))
	shift := 0
	if n := len(v); n > 0 {
		if shift = 10 * (strings.IndexByte("kmgt", v[n-1]) + 1); shift > 0 {
			v = v[:n-1]
		}
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 || n > 1<<50>>shift {
		return 0
	}
	return n << shift
}

const defaultPort = "8020"

// nameNodes are the addresses of an authority: a name service's NameNodes, or the hosts it lists.
func (c hadoopConf) nameNodes(authority string) ([]string, error) {
	services := strings.FieldsFunc(c.first("dfs.nameservices", "dfs.internal.nameservices"), comma)
	ids := strings.FieldsFunc(c.get("dfs.ha.namenodes."+authority), comma)
	if len(ids) == 0 && !slices.Contains(services, authority) {
		var out []string
		for _, host := range strings.FieldsFunc(authority, comma) {
			if !strings.Contains(host, ":") {
				host = net.JoinHostPort(host, defaultPort)
			}
			out = append(out, host)
		}
		if len(out) == 0 {
			return nil, errors.New("it names no NameNode; write it as hdfs://host:8020")
		}
		return out, nil
	}
	keys := []string{"dfs.namenode.rpc-address." + authority}
	if len(ids) > 0 {
		keys = nil
		for _, id := range ids {
			keys = append(keys, "dfs.namenode.rpc-address."+authority+"."+id)
		}
	}
	var out []string
	for _, key := range keys {
		address := c.get(key)
		if address == "" {
			return nil, fmt.Errorf("name service %q has no %s; add it to hdfs-site.xml", authority, key)
		}
		if !strings.Contains(address, ":") {
			address = net.JoinHostPort(address, defaultPort)
		}
		out = append(out, address)
	}
	return out, nil
}

func comma(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' }

package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colinmarc/hdfs/v2"
	"github.com/colinmarc/hdfs/v2/hadoopconf"
	krb "github.com/jcmturner/gokrb5/v8/client"
	krbconfig "github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"

	"millrace/connectors"
	"millrace/schema/config"
)

// cluster is what connections to an HDFS need.
type cluster struct {
	options hdfs.ClientOptions
	folder  string // below which all else lies; "" or "/name"
	conf    hadoopConf
	logIn   func() (*krb.Client, error) // nil without Kerberos
}

// newCluster reads the settings and Hadoop's files; it reaches nothing. Its errors name the key.
func newCluster(cc connectors.Context, v config.Values) (*cluster, *config.Error) {
	conf, err := readHadoopConf(cc.Files, confDir.Get(v))
	if err != nil {
		return nil, confDir.Errorf(v, "%v", err)
	}
	at, key := url(v), hdfsURL
	if storeURL.Has(v) && !hdfsURL.Has(v) {
		key = storeURL
	}
	if at == "" {
		if at, key = conf.first("fs.defaultFS", "fs.default.name"), confDir; at == "" {
			return nil, confDir.Errorf(v, "its core-site.xml has no fs.defaultFS; add it, or set %s", hdfsURL.Name)
		}
	}
	where, err := parseURL(at)
	if err != nil {
		return nil, key.Errorf(v, "%v", err)
	}
	c := &cluster{conf: conf}
	if where.folder != "" {
		c.folder = "/" + where.folder
	}
	// Only what it reads itself, so that nothing else in the files can trouble it.
	c.options = hdfs.ClientOptionsFromConf(hadoopconf.HadoopConf{
		"dfs.client.use.datanode.hostname": strings.ToLower(conf.get("dfs.client.use.datanode.hostname")),
		"dfs.namenode.kerberos.principal":  conf.get("dfs.namenode.kerberos.principal"),
		"dfs.data.transfer.protection":     conf.get("dfs.data.transfer.protection"),
		"dfs.encrypt.data.transfer":        conf.get("dfs.encrypt.data.transfer"),
	})
	if c.options.Addresses, err = conf.nameNodes(where.authority); err != nil {
		return nil, key.Errorf(v, "%v", err)
	}
	if kerberos.Get(v) {
		return c, c.secure(cc, v)
	}
	if strings.EqualFold(conf.get("hadoop.security.authentication"), "kerberos") {
		return nil, kerberos.Errorf(v, "core-site.xml says that HDFS wants Kerberos; set it true, with %s and %s", principal.Name, keytabFile.Name)
	}
	c.options.DataTransferProtection = "" // it rests on tokens, which there are with Kerberos alone
	if c.options.User, err = whoAmI(v); err != nil {
		return nil, userName.Errorf(v, "%v", err)
	}
	return c, nil
}

// secure prepares a login by keytab.
func (c *cluster) secure(cc connectors.Context, v config.Values) *config.Error {
	if p := namenodePrincipal.Get(v); p != "" {
		c.options.KerberosServicePrincipleName, _, _ = strings.Cut(p, "@")
	}
	if c.options.KerberosServicePrincipleName == "" {
		return namenodePrincipal.Errorf(v, "%s=true needs it, or dfs.namenode.kerberos.principal in hdfs-site.xml", kerberos.Name)
	}
	file := keytabFile.Get(v)
	if cc.Files != nil {
		var err error
		if file, err = cc.Files.Check(file); err != nil {
			return keytabFile.Errorf(v, "%v", err)
		}
	}
	name, realm, _ := strings.Cut(principal.Get(v), "@")
	if host, err := os.Hostname(); err == nil {
		name = strings.Replace(name, "_HOST", strings.ToLower(host), 1)
	}
	c.logIn = func() (*krb.Client, error) {
		path := os.Getenv("KRB5_CONFIG")
		if path == "" {
			path = "/etc/krb5.conf"
		}
		conf, err := krbconfig.Load(path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		keys, err := keytab.Load(file)
		if err != nil {
			return nil, fmt.Errorf("read keytab %s: %w", file, err)
		}
		if realm == "" {
			realm = conf.LibDefaults.DefaultRealm
		}
		cl := krb.NewWithKeytab(name, realm, keys, conf, krb.DisablePAFXFAST(true))
		if err := cl.Login(); err != nil {
			cl.Destroy()
			return nil, fmt.Errorf("as %s@%s: %w", name, realm, err)
		}
		return cl, nil
	}
	return nil
}

// A link is a client with what it has open.
type link struct {
	*hdfs.Client
	dial *dialer
	krb  *krb.Client
	once sync.Once
	warm sync.Mutex // held while the first file is written: the client keeps what it learns of the cluster without a lock
	hot  bool
}

// A loginError is one of Kerberos, before a NameNode was asked for anything.
type loginError struct{ error }

func (e *loginError) Unwrap() error { return e.error }

// connect makes a link. first is which address is tried first: a NameNode that is of no use must not be met each time.
func (c *cluster) connect(ctx context.Context, first int) (*link, error) {
	l := &link{dial: &dialer{open: map[net.Conn]struct{}{}, timeout: c.conf.duration("ipc.client.connect.timeout", 20*time.Second)}}
	defer context.AfterFunc(ctx, l.dial.kill)()
	o := c.options
	n := len(o.Addresses)
	o.Addresses = append(append(make([]string, 0, n), o.Addresses[first%n:]...), o.Addresses[:first%n]...)
	o.NamenodeDialFunc = l.dial.dialFunc(c.conf.duration("ipc.client.rpc-timeout.ms", 60*time.Second), false)
	o.DatanodeDialFunc = l.dial.dialFunc(c.conf.duration("dfs.client.socket-timeout", 60*time.Second), true)
	var err error
	if c.logIn != nil {
		if l.krb, err = c.logIn(); err != nil {
			return nil, &loginError{err}
		}
		o.KerberosClient = l.krb
	}
	if l.Client, err = hdfs.NewClient(o); err == nil {
		_, err = l.ServerDefaults() // it is kept, and asked by all
	}
	if err != nil {
		l.shut()
		return nil, err
	}
	return l, nil
}

// shut ends everything that the link has open.
func (l *link) shut() {
	l.once.Do(func() {
		l.dial.kill()
		if l.Client != nil {
			_ = l.Client.Close()
		}
		if l.krb != nil {
			l.krb.Destroy()
		}
	})
}

// A dialer makes connections that end when nothing comes for too long, and all at once when they are told to.
type dialer struct {
	timeout time.Duration

	mu   sync.Mutex // guards the fields below
	open map[net.Conn]struct{}
	dead bool
}

var errEnded = errors.New("the server closed the connection")

var errShut = errors.New("the connection was given up")

// dialFunc dials for a client. A call of a NameNode has that long in all; a DataNode may take so long for each step.
func (d *dialer) dialFunc(limit time.Duration, steps bool) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d.mu.Lock()
		dead := d.dead
		d.mu.Unlock()
		if dead {
			return nil, errShut
		}
		nc, err := (&net.Dialer{Timeout: d.timeout, KeepAlive: 30 * time.Second}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &timedConn{Conn: nc, d: d, limit: limit, steps: steps}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.dead {
			nc.Close()
			return nil, errShut
		}
		d.open[c] = struct{}{}
		return c, nil
	}
}

func (d *dialer) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	for c := range d.open {
		_ = c.(*timedConn).Conn.Close()
	}
	clear(d.open)
}

type timedConn struct {
	net.Conn
	d     *dialer
	limit time.Duration
	steps bool

	failed atomic.Pointer[error] // of a write, which the next read tells
}

// SetDeadline does nothing: limits are the connection's own.
func (c *timedConn) SetDeadline(time.Time) error { return nil }

func (c *timedConn) Read(p []byte) (int, error) {
	if c.steps {
		_ = c.Conn.SetReadDeadline(time.Now().Add(c.limit))
	}
	n, err := c.Conn.Read(p)
	if err == io.EOF { // the client would hand it on, and it would be taken for the end of a file
		err = errEnded
	}
	if first := c.failed.Load(); err != nil && first != nil {
		err = *first
	}
	return n, err
}

func (c *timedConn) Write(p []byte) (int, error) {
	_ = c.Conn.SetDeadline(time.Now().Add(c.limit))
	n, err := c.Conn.Write(p)
	if err != nil && c.steps {
		// The client's writer of a block leaves a goroutine with its buffers behind for ever where a write fails, and not where an
		// answer does: so it is told by reading, and what it still writes goes nowhere.
		c.failed.CompareAndSwap(nil, &err)
		_ = c.Conn.Close()
		return len(p), nil
	}
	return n, err
}

func (c *timedConn) Close() error {
	c.d.mu.Lock()
	delete(c.d.open, net.Conn(c))
	c.d.mu.Unlock()
	return c.Conn.Close()
}

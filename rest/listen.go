package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"millrace/runtime"
	"millrace/schema/config/javatls"
)

// Listeners are the API's open ports. They are served once the worker is there.
type Listeners struct {
	list       []listener
	advertised string
	names      []string // hosts by which clients may call
	worker     runtime.RESTConfig
	spec       listenSpec
	users      *Users // who must sign in; nil: nobody must
	lg         *slog.Logger
}

// listener is one open port.
type listener struct {
	net.Listener
	scheme   string // http or https
	loopback bool   // of this machine alone
	only     Part
}

// listenSpec is what tells the listeners of one API from those of another.
type listenSpec struct {
	what, key, flag, example string // in errors
	host                     string // advertised; "" for the listener's
	port                     int
	scheme                   string // advertised; "" for http where there is such a listener
	hostKey, schemeKey       string
}

// Part is which of the API's routes a listener serves.
type Part int

// The parts of the API.
const (
	AllRoutes Part = iota
	NoAdmin        // all but /admin
	OnlyAdmin      // /admin alone
)

// Listen opens the ports that the worker's settings name. A port that others can reach is refused
// where nobody has to sign in, unless the settings say insecure=true.
func Listen(c runtime.RESTConfig, lg *slog.Logger) (_ *Listeners, err error) {
	ls := &Listeners{worker: c, lg: lg, spec: listenSpec{what: "the REST API", key: "listeners", flag: "--rest", example: "127.0.0.1:8084",
		host: c.AdvertisedHost, port: c.AdvertisedPort, scheme: c.AdvertisedScheme, hostKey: "rest.advertised.host.name", schemeKey: "rest.advertised.listener"}}
	defer func() {
		if err != nil {
			ls.Close()
		}
	}()
	if err := ls.openUsers(); err != nil {
		return nil, err
	}
	part := AllRoutes
	if c.AdminListeners != nil {
		part = NoAdmin
	}
	for _, at := range c.Listeners {
		if err := ls.open(at, part); err != nil {
			return nil, err
		}
	}
	if len(ls.list) == 0 {
		return nil, errors.New("listeners: the REST API needs at least one; name it as in listeners=http://127.0.0.1:8083")
	}
	for _, at := range c.AdminListeners {
		if err := ls.open(at, OnlyAdmin); err != nil {
			return nil, err
		}
	}
	return ls, ls.advertise()
}

// ListenRegistry opens the ports of the schema registry, to which the REST API's settings of users, certificates and foreign pages
// apply as well.
func ListenRegistry(c runtime.RegistryConfig, shared runtime.RESTConfig, lg *slog.Logger) (_ *Listeners, err error) {
	ls := &Listeners{worker: shared, lg: lg, spec: listenSpec{what: "the schema registry", key: "schema.registry.listeners", flag: "--registry", example: "127.0.0.1:8082",
		host: c.AdvertisedHost, port: c.AdvertisedPort, hostKey: "schema.registry.host.name", schemeKey: "schema.registry.listeners"}}
	defer func() {
		if err != nil {
			ls.Close()
		}
	}()
	if err := ls.openUsers(); err != nil {
		return nil, err
	}
	for _, at := range c.Listeners {
		if err := ls.open(at, AllRoutes); err != nil {
			return nil, err
		}
	}
	return ls, ls.advertise()
}

func (ls *Listeners) openUsers() (err error) {
	if ls.worker.UsersFile != "" {
		if ls.users, err = OpenUsers(ls.worker.UsersFile, ls.lg); err != nil {
			return fmt.Errorf("rest.auth.file: %w", err)
		}
	}
	return nil
}

func (ls *Listeners) open(at runtime.ListenerAddr, part Part) error {
	key := ls.spec.key
	if part == OnlyAdmin {
		key = "admin.listeners"
	}
	loopback := ofThisMachine(at.Host)
	var secure *javatls.Material
	if at.Scheme == "https" {
		var err error
		if secure, err = ls.worker.TLS(part == OnlyAdmin, ls.lg); err != nil {
			return fmt.Errorf("%s=%s: %w", key, at, err)
		}
		secure.Expired()
	}
	certified := false
	if secure != nil {
		_, certified = secure.AsksClients()
	}
	switch {
	case loopback || certified:
	case ls.users != nil && secure == nil:
		ls.lg.Warn("passwords of those who sign in at this listener can be read on the way: use https, here or at a proxy before it", "listener", at.String())
	case ls.users != nil:
	case !ls.worker.Insecure:
		return fmt.Errorf("%s=%s (%s): others can reach this address and nobody would have to sign in; use a loopback address, "+
			"let users sign in with rest.auth=basic and rest.auth.file, ask for certificates with listeners.https.ssl.client.auth=required, "+
			"or allow it with insecure=true in the worker's properties (--config insecure=true)", key, at, ls.spec.flag)
	default:
		ls.lg.Warn("whoever reaches this listener may see and change everything (insecure=true)", "listener", at.String())
	}
	l, err := net.Listen("tcp", net.JoinHostPort(at.Host, strconv.Itoa(at.Port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s's address %s is in use, by another worker perhaps; choose another with %s, as in %s %s, or with %s", ls.spec.what, at.HostPort(), ls.spec.flag, ls.spec.flag, ls.spec.example, key)
	case err != nil:
		return fmt.Errorf("%s's address %s (%s or %s): %w", ls.spec.what, at.HostPort(), ls.spec.flag, key, err)
	}
	if secure != nil {
		c := secure.ListenerTLS()
		c.NextProtos = []string{"http/1.1"}
		l = tls.NewListener(l, c)
	}
	ls.list = append(ls.list, listener{Listener: l, scheme: at.Scheme, loopback: loopback, only: part})
	return nil
}

// ofThisMachine reports whether nobody else can reach a host's ports.
func ofThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// advertise settles where other workers, and clients, find this API: at the first listener of the
// wanted scheme unless host or port are given.
func (ls *Listeners) advertise() error {
	scheme := ls.spec.scheme
	if scheme == "" {
		scheme = "https"
		for _, l := range ls.list {
			if l.scheme == "http" && l.only != OnlyAdmin {
				scheme = "http"
			}
		}
	}
	var at net.Addr
	for _, l := range ls.list {
		if l.scheme == scheme && l.only != OnlyAdmin {
			at = l.Addr()
			break
		}
	}
	if at == nil {
		return fmt.Errorf("%s=%s: listeners names no %s listener; add one, or advertise another", ls.spec.schemeKey, scheme, scheme)
	}
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return err
	}
	// All addresses together are none that anybody could call, and would be the same on every machine.
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return fmt.Errorf("find this machine's name for the advertised address: %w; set %s", err, ls.spec.hostKey)
		}
	}
	if ls.spec.host != "" {
		host = ls.spec.host
	}
	if ls.spec.port != 0 {
		port = strconv.Itoa(ls.spec.port)
	}
	ls.names = []string{strings.ToLower(host)}
	ls.advertised = (&url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port), Path: "/"}).String()
	return nil
}

// Advertised is where other workers find this API: "http://host:8083/".
func (ls *Listeners) Advertised() string { return ls.advertised }

// URL is where this machine's clients find the API, without a slash at its end.
func (ls *Listeners) URL() string { return ls.list[0].scheme + "://" + ls.list[0].Addr().String() }

// Loopback reports whether nobody outside of this machine reaches any of the listeners.
func (ls *Listeners) Loopback() bool {
	for _, l := range ls.list {
		if !l.loopback {
			return false
		}
	}
	return true
}

// Serve answers requests on all listeners until ctx ends, then finishes those under way. It closes
// the listeners, and returns nil when ctx ended. c is completed with what the listeners' settings say.
func (ls *Listeners) Serve(ctx context.Context, c Config) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range ls.list {
		c := c
		c.Part, c.CheckHost, c.AllowedHosts, c.REST, c.Users = l.only, l.loopback && ls.users == nil, ls.names, ls.worker, ls.users
		g.Go(func() error { return New(c).Serve(ctx, l) })
	}
	return g.Wait()
}

// ServeHandler is Serve for another API than Connect's.
func (ls *Listeners) ServeHandler(ctx context.Context, h http.Handler) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range ls.list {
		gate := Gate{AllowedHosts: ls.names, CheckHost: l.loopback && ls.users == nil, REST: ls.worker, Users: ls.users}
		g.Go(func() error { return serveOn(ctx, l, gate.Guard(h), ls.lg) })
	}
	return g.Wait()
}

// Close closes the listeners.
func (ls *Listeners) Close() {
	for _, l := range ls.list {
		l.Close()
	}
}

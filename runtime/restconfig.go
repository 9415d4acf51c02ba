package runtime

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"millrace/schema/config"
)

// The settings of the REST API's listeners.
var (
	listeners        = config.Key[[]string]{Name: "listeners", Doc: "Addresses of the REST API, as http://HOST:PORT or https://HOST:PORT; without a host, all of this machine's. One that others can reach needs a sign-in (rest.auth) or a client's certificate, or insecure=true.", Default: []string{"http://127.0.0.1:8083"}, Importance: config.Low, Check: listenerURLs}
	adminListeners   = config.Key[[]string]{Name: "admin.listeners", Doc: "Addresses of the calls below /admin, apart from the others; empty: nobody serves them. Not given: the same as listeners.", Importance: config.Low, Check: listenerURLs}
	advertisedHost   = config.Key[string]{Name: "rest.advertised.host.name", Doc: "Host by which other workers and clients reach the REST API, where it is not the listener's.", Importance: config.Low}
	advertisedPort   = config.Key[int32]{Name: "rest.advertised.port", Doc: "Port by which other workers and clients reach the REST API, where it is not the listener's.", NullDefault: true, Importance: config.Low, Check: config.Between[int32](0, 65535)}
	advertisedScheme = config.Key[string]{Name: "rest.advertised.listener", Doc: "Which of the listeners other workers use: http or https. Without it http, where there is such a one.", Importance: config.Low, Check: config.OneOf("http", "https")}
	insecure         = config.Key[bool]{Name: "insecure", Doc: "Whether listeners that others can reach may serve without anybody signing in.", Importance: config.Medium}
)

var restDef = config.Define(listeners, adminListeners, advertisedHost, advertisedPort, advertisedScheme, insecure)

// RESTConfig is what a worker's settings say of the REST API's listeners.
type RESTConfig struct {
	Listeners        []ListenerAddr
	AdminListeners   []ListenerAddr // nil: /admin is with the others; empty: nowhere
	AdvertisedHost   string
	AdvertisedPort   int    // 0: the listener's
	AdvertisedScheme string // http, https; "" for the first that there is
	Insecure         bool
}

// ListenerAddr is one address of Connect's listeners settings.
type ListenerAddr struct {
	Scheme string // http or https
	Host   string // 0.0.0.0 for all
	Port   int
}

// HostPort is the address without its scheme.
func (a ListenerAddr) HostPort() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

func (a ListenerAddr) String() string { return a.Scheme + "://" + a.HostPort() }

var listenerURL = regexp.MustCompile(`^([a-z]+)://(\[[0-9a-f:.%]*\]|[0-9a-z._-]*):([0-9]{1,5})/?$`)

func parseListener(text string) (ListenerAddr, error) {
	m := listenerURL.FindStringSubmatch(strings.ToLower(text))
	if m == nil || m[1] != "http" && m[1] != "https" {
		return ListenerAddr{}, fmt.Errorf("%q is no listener; want http://HOST:PORT or https://HOST:PORT", text)
	}
	port, _ := strconv.Atoi(m[3]) // five digits at most
	if port > 65535 {
		return ListenerAddr{}, fmt.Errorf("address %s: there is no port %d", strings.TrimPrefix(m[0], m[1]+"://"), port)
	}
	host := strings.Trim(m[2], "[]")
	if host == "" {
		host = "0.0.0.0"
	}
	return ListenerAddr{m[1], host, port}, nil
}

func listenerURLs(list []string) error {
	for _, text := range list {
		if _, err := parseListener(text); err != nil {
			return err
		}
	}
	return nil
}

// parseREST reads what parsed without an error.
func parseREST(v config.Values) RESTConfig {
	c := RESTConfig{
		AdvertisedHost: advertisedHost.Get(v), AdvertisedPort: int(advertisedPort.Get(v)),
		AdvertisedScheme: strings.ToLower(advertisedScheme.Get(v)), Insecure: insecure.Get(v),
	}
	for _, text := range listeners.Get(v) {
		if a, err := parseListener(text); err == nil {
			c.Listeners = append(c.Listeners, a)
		}
	}
	if adminListeners.Has(v) {
		c.AdminListeners = []ListenerAddr{}
		for _, text := range adminListeners.Get(v) {
			if a, err := parseListener(text); err == nil {
				c.AdminListeners = append(c.AdminListeners, a)
			}
		}
	}
	return c
}

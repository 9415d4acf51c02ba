package runtime

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"millrace/schema/config"
	"millrace/schema/config/javatls"
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

var (
	restAuth       = config.Key[string]{Name: "rest.auth", Doc: "How clients of the REST API sign in: none, or basic with the users of rest.auth.file.", Default: "none", Check: config.OneOf("none", "basic")}
	restAuthFile   = config.Key[string]{Name: "rest.auth.file", Doc: "File of users and their bcrypt passwords, as htpasswd -B makes it. It is read anew when it changes."}
	restExtensions = config.Key[[]string]{Name: "rest.extension.classes", Doc: "Connect's BasicAuthSecurityRestExtension, by its class, means rest.auth=basic; other Java classes cannot be loaded and are refused.", EmptyDefault: true, Importance: config.Low, Check: knownExtensions}
	hideSecrets    = config.Key[bool]{Name: "rest.hide.secrets", Doc: "Whether secrets in connectors' configurations are shown as [hidden] where the API returns configurations. A configuration that is sent back with [hidden] keeps what is stored.", Importance: config.Low}
	allowOrigin    = config.Key[[]string]{Name: "access.control.allow.origin", Doc: "Origins whose pages may use the API from a browser, as https://HOST:PORT; * in a host stands for a part of its name. The origin * lets all pages read, and none act.", EmptyDefault: true, Importance: config.Low, Check: origins}
	allowMethods   = config.Key[[]string]{Name: "access.control.allow.methods", Doc: "Methods that pages of those origins may use; GET, POST and HEAD where empty.", EmptyDefault: true, Importance: config.Low, Check: httpMethods}
	headerRules    = config.Key[string]{Name: "response.http.headers.config", Doc: "Headers of every answer: rules ACTION NAME:VALUE, separated by commas, in quotes where they hold some; actions are set, add, setDate and addDate.", EmptyDefault: true, Importance: config.Low, Check: func(s string) error { _, err := parseHeaderRules(s); return err }}

	restTLS, adminTLS, sharedTLS = javatls.Below("listeners.https.ssl."), javatls.Below("admin.listeners.https.ssl."), javatls.Below("ssl.")
)

var restDef = config.Define(listeners, adminListeners, advertisedHost, advertisedPort, advertisedScheme, insecure,
	restAuth, restAuthFile, restExtensions, hideSecrets, allowOrigin, allowMethods, headerRules).
	Merge(restTLS.Listener()).Merge(adminTLS.Listener())

// basicAuthExtension is the class with which Connect asks for a sign-in.
const basicAuthExtension = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"

func isBasicAuth(class string) bool {
	return class == basicAuthExtension || class == "BasicAuthSecurityRestExtension"
}

func knownExtensions(classes []string) error {
	for _, c := range classes {
		if !isBasicAuth(c) {
			return fmt.Errorf("%s: Java classes cannot be loaded; remove it, and let rest.auth=basic guard the API", c)
		}
	}
	return nil
}

func origins(list []string) error {
	for _, o := range list {
		u, err := url.Parse(strings.ReplaceAll(o, "*", "x"))
		if o != "*" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
			return fmt.Errorf("%q is no origin; want https://HOST or https://HOST:PORT, without a path, or *", o)
		}
	}
	return nil
}

func httpMethods(list []string) error {
	for _, m := range list {
		if !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}, strings.ToUpper(m)) {
			return fmt.Errorf("%q is no method of the API", m)
		}
	}
	return nil
}

// RESTConfig is what a worker's settings say of the REST API's listeners.
type RESTConfig struct {
	Listeners        []ListenerAddr
	AdminListeners   []ListenerAddr // nil: /admin is with the others; empty: nowhere
	AdvertisedHost   string
	AdvertisedPort   int    // 0: the listener's
	AdvertisedScheme string // http, https; "" for the first that there is
	Insecure         bool

	UsersFile    string // of users who must sign in; "": nobody must
	HideSecrets  bool
	AllowOrigins []string // of pages in browsers
	AllowMethods []string
	Headers      []HeaderRule // of every answer

	raw map[string]string
}

// TLS reads what https listeners need: of listeners.https.ssl.*, or of the worker's ssl.* where there is none of
// those; of admin.listeners.https.ssl.* first for the listeners of /admin.
func (c RESTConfig) TLS(admin bool, lg *slog.Logger) (*javatls.Material, error) {
	keys := sharedTLS
	switch {
	case admin && adminTLS.Given(c.raw):
		keys = adminTLS
	case restTLS.Given(c.raw):
		keys = restTLS
	}
	m, errs := keys.ReadListener(c.raw, nil, lg)
	if len(errs) > 0 {
		return nil, wrongKeys(errs)
	}
	return m, nil
}

// ClientTLS is what a client of this worker's own trusts and shows when it calls another worker's https listener: as the listeners' own
// settings say, nil where there are none.
func (c RESTConfig) ClientTLS(lg *slog.Logger) (*javatls.Material, error) {
	keys := sharedTLS
	if restTLS.Given(c.raw) {
		keys = restTLS
	} else if !sharedTLS.Given(c.raw) {
		return nil, nil
	}
	m, errs := keys.ReadClient(c.raw, nil, lg)
	if len(errs) > 0 {
		return nil, wrongKeys(errs)
	}
	return m, nil
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
func parseREST(v config.Values) (RESTConfig, []*config.Error) {
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
	c.raw = v.Raw
	c.HideSecrets, c.AllowOrigins = hideSecrets.Get(v), allowOrigin.Get(v)
	for _, m := range allowMethods.Get(v) {
		c.AllowMethods = append(c.AllowMethods, strings.ToUpper(m))
	}
	c.Headers, _ = parseHeaderRules(headerRules.Get(v)) // its own check has told
	var errs []*config.Error
	basic, file := strings.EqualFold(restAuth.Get(v), "basic"), restAuthFile.Get(v)
	extension := slices.ContainsFunc(restExtensions.Get(v), isBasicAuth)
	switch {
	case (basic || extension) && file == "":
		key, value := restAuth.Name, restAuth.Get(v)
		if !basic {
			key, value = restExtensions.Name, strings.Join(restExtensions.Get(v), ",")
		}
		reason := "it needs the file of users: set rest.auth.file to an htpasswd file with bcrypt passwords (htpasswd -B)"
		if extension {
			reason += "; Connect reads its users from the file that java.security.auth.login.config names, a setting of the JVM: make a line with htpasswd -nB NAME for each of them"
		}
		errs = append(errs, &config.Error{Key: key, Value: value, Reason: reason})
	case !basic && !extension && file != "":
		errs = append(errs, restAuthFile.Errorf(v, "nobody would have to sign in: set rest.auth=basic, or remove it"))
	case basic || extension:
		c.UsersFile = file
	}
	return c, errs
}

package avroconverter

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"millrace/schema/config"
	"millrace/schema/config/javatls"
	"millrace/schema/converters"
	"millrace/schema/registry/client"
)

// clientOf makes the registry's client of the settings.
func clientOf(v config.Values, env converters.Env) (*client.Client, error) {
	o := client.Options{
		URLs: registryURL.Get(v), Shuffle: shuffle.Get(v), Timeout: readTimeout.Get(v),
		Retries: int(maxRetries.Get(v)), Wait: max(retryWait.Get(v), time.Millisecond), MostWait: retryMaxWait.Get(v), Headers: map[string]string{},
	}
	if len(o.URLs) == 0 {
		if env.Registry == "" {
			return nil, registryURL.Errorf(v, "name the schema registry, such as http://localhost:8081; this process has none of its own")
		}
		o.URLs = []string{env.Registry}
	}
	for name, value := range v.Raw {
		if h, ok := strings.CutPrefix(name, requestHeader); ok && h != "" {
			o.Headers[h] = value
		}
	}
	t, err := transportOf(v, env)
	if err != nil {
		return nil, err
	}
	o.Transport = t
	if err := signIn(&o, v, t); err != nil {
		return nil, err
	}
	c, err := client.New(o)
	if err != nil {
		return nil, registryURL.Errorf(v, "%v", err)
	}
	return c, nil
}

func dialerOf(v config.Values) *net.Dialer {
	return &net.Dialer{Timeout: connectTimeout.Get(v), KeepAlive: 30 * time.Second}
}

func transportOf(v config.Values, env converters.Env) (*http.Transport, error) {
	t := &http.Transport{DialContext: dialerOf(v).DialContext, MaxIdleConnsPerHost: 2, IdleConnTimeout: 60 * time.Second, TLSHandshakeTimeout: 30 * time.Second}
	if host := proxyHost.Get(v); host != "" {
		port := proxyPort.Get(v)
		if port < 1 {
			return nil, proxyPort.Errorf(v, "with %s it is a port", proxyHost.Name)
		}
		t.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))})
	}
	if !tlsKeys.Given(v.Raw) {
		return t, nil
	}
	var open javatls.Open
	if env.Check != nil {
		open = javatls.Checked(env.Check)
	}
	m, errs := tlsKeys.ReadClient(v.Raw, open, nil)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	m.Secure(t)
	return t, nil
}

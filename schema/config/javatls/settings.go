package javatls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"millrace/schema/config"
)

// Keys are the settings of one place, below one prefix.
type Keys struct {
	prefix string

	keyType, keyLocation                               config.Key[string]
	keyStorePassword, keyPassword, privateKey, keyText config.Key[config.Password]
	trustType, trustLocation                           config.Key[string]
	trustPassword                                      config.Key[config.Password]
	trustText                                          config.Key[config.Password]
	clientAuth                                         config.Key[string]
	protocol, hostCheck                                config.Key[string]
	protocols, ciphers                                 config.Key[[]string]
}

const group = "TLS"

// Below declares the settings that stand below a prefix: "ssl." for a client, "log.listener.ssl." for a listener.
func Below(prefix string) Keys {
	text := func(name, standard, doc string, check func(string) error) config.Key[string] {
		return config.Key[string]{Name: prefix + name, Doc: doc, Default: standard, Group: group, Check: check}
	}
	secret := func(name, doc string) config.Key[config.Password] {
		return config.Key[config.Password]{Name: prefix + name, Doc: doc, Group: group, Importance: config.High}
	}
	return Keys{
		prefix:           prefix,
		keyType:          text("keystore.type", "JKS", "Type of the key store: JKS, PKCS12 or PEM. What the file holds decides.", storeType),
		keyLocation:      text("keystore.location", "", "File with our own key and its certificates: a JKS or PKCS12 store, or PEM.", nil),
		keyStorePassword: secret("keystore.password", "Password of the key store."),
		keyPassword:      secret("key.password", "Password of the key, where it is not the key store's."),
		privateKey:       secret("keystore.key", "Our own private key itself, in PEM (PKCS #8), instead of keystore.location."),
		keyText:          secret("keystore.certificate.chain", "The certificates of keystore.key themselves, in PEM, our own first."),
		trustType:        text("truststore.type", "JKS", "Type of the trust store: JKS, PKCS12 or PEM. What the file holds decides.", storeType),
		trustLocation:    text("truststore.location", "", "File with the authorities' certificates: a JKS or PKCS12 store, or PEM. Without one, the system's authorities are trusted.", nil),
		trustPassword:    secret("truststore.password", "Password of the trust store."),
		trustText:        secret("truststore.certificates", "The authorities' certificates themselves, in PEM, instead of truststore.location."),
		clientAuth:       text("client.auth", "none", "Whether clients of a listener show a certificate: none, requested (checked where they do) or required.", config.OneOf("none", "requested", "required")),
		protocol:         text("protocol", "TLSv1.3", "Highest version of TLS: TLSv1.3 or TLSv1.2.", version),
		protocols:        config.Key[[]string]{Name: prefix + "enabled.protocols", Doc: "Versions of TLS that are spoken.", Default: []string{"TLSv1.2", "TLSv1.3"}, Group: group, Check: versions},
		ciphers:          config.Key[[]string]{Name: prefix + "cipher.suites", Doc: "Cipher suites of TLS 1.2, by their standard names. Those of TLS 1.3 are all on. Default: those without known weaknesses.", Group: group, Check: suites},
		hostCheck:        text("endpoint.identification.algorithm", "https", "https checks that a server's certificate is for its host name; empty checks its authority alone.", config.OneOf("https", "")),
	}
}

// Client declares what concerns a client.
func (k Keys) Client() config.Def {
	return k.common(k.hostCheck)
}

// Listener declares what concerns a listener.
func (k Keys) Listener() config.Def {
	return k.common(k.clientAuth)
}

func (k Keys) common(more ...config.Field) config.Def {
	ignored := map[string]string{}
	for name, why := range map[string]string{
		"provider": "there are no Java providers", "secure.random.implementation": "the system's random numbers are used",
		"keymanager.algorithm": "there is one way to choose a key", "trustmanager.algorithm": "certificates are checked by RFC 5280",
		"engine.factory.class": "Java classes cannot be loaded",
	} {
		ignored[k.prefix+name] = why
	}
	return config.Define(append([]config.Field{k.keyLocation, k.keyType, k.keyStorePassword, k.keyPassword, k.privateKey, k.keyText,
		k.trustLocation, k.trustType, k.trustPassword, k.trustText, k.protocol, k.protocols, k.ciphers}, more...)...).Ignoring(ignored)
}

// Given reports whether any setting of the place is in raw.
func (k Keys) Given(raw map[string]string) bool {
	for name := range raw {
		if strings.HasPrefix(name, k.prefix) {
			return true
		}
	}
	return false
}

// Open opens a file that a setting names. A nil Open is os.Open; connectors' settings bring one that knows which files
// connectors may read.
type Open func(path string) (*os.File, error)

// Checked makes an Open of a check that returns the path to open, or why it may not be opened.
func Checked(check func(path string) (string, error)) Open {
	return func(path string) (*os.File, error) {
		path, err := check(path)
		if err != nil {
			return nil, err
		}
		return os.Open(path)
	}
}

// storeType is a Check.
func storeType(s string) error {
	if slices.ContainsFunc([]string{"JKS", "PKCS12", "PEM"}, func(t string) bool { return strings.EqualFold(t, s) }) {
		return nil
	}
	return fmt.Errorf("the store must be JKS, PKCS12 or PEM; convert others with: %s", toPKCS12)
}

const toPKCS12 = "keytool -importkeystore -srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12"

var byName = map[string]uint16{"TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13, "TLS": tls.VersionTLS13}

func version(s string) error {
	if byName[s] == 0 {
		return fmt.Errorf("the versions spoken are TLSv1.2 and TLSv1.3; older ones are broken")
	}
	return nil
}

func versions(list []string) error {
	if len(list) == 0 {
		return fmt.Errorf("name TLSv1.2, TLSv1.3 or both")
	}
	for _, s := range list {
		if s == "TLS" {
			return fmt.Errorf("name TLSv1.2, TLSv1.3 or both")
		}
		if err := version(s); err != nil {
			return err
		}
	}
	return nil
}

// suites is a Check.
func suites(list []string) error {
	_, err := suiteIDs(list)
	return err
}

func suiteIDs(list []string) (ids []uint16, err error) {
	for _, name := range list {
		i := slices.IndexFunc(tls.CipherSuites(), func(c *tls.CipherSuite) bool { return c.Name == name })
		switch {
		case i >= 0:
			ids = append(ids, tls.CipherSuites()[i].ID)
		case slices.ContainsFunc(tls.InsecureCipherSuites(), func(c *tls.CipherSuite) bool { return c.Name == name }):
			return nil, fmt.Errorf("%s is weak and is not spoken", name)
		default:
			var known []string
			for _, c := range tls.CipherSuites() {
				known = append(known, c.Name)
			}
			return nil, fmt.Errorf("%s is not known; these are: %s", name, strings.Join(known, ", "))
		}
	}
	return ids, nil
}

const maxStore = 4 << 20 // bytes of a store's file; the usual ones have a few KiB

var errTooLarge = errors.New("the file is larger than 4 MiB and no store of certificates")

// read reads a store's file. Only regular files are read: a pipe or a device would never end.
func read(open Open, path string) ([]byte, stamp, error) {
	if open == nil {
		open = os.Open
	}
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return nil, stamp{}, errors.New("it is no regular file")
	}
	f, err := open(path)
	if err != nil {
		return nil, stamp{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, stamp{}, err
	}
	if !fi.Mode().IsRegular() {
		return nil, stamp{}, errors.New("it is no regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxStore+1))
	if err == nil && len(b) > maxStore {
		err = errTooLarge
	}
	return b, stampOf(fi), err
}

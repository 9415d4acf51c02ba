package mysql

import (
	"crypto/tls"
	"fmt"
	"strings"

	"millrace/connectors"
	"millrace/schema/config/javatls"
)

// stores reads database.ssl.keystore and .truststore, whose passwords have the names that
// it looks for below this prefix.
var stores = javatls.Below("database.ssl.")

// tls is how the connection is encrypted; nil: it is not. Certificates come from stores as
// Java's driver has them, or from files in PEM: database.ssl.truststore holds those of
// authorities, database.ssl.keystore the client's and its key.
func (s *settings) tls(files connectors.Files) (*tls.Config, error) {
	if s.sslMode == "disabled" {
		return nil, nil
	}
	var open javatls.Open
	if files != nil {
		open = javatls.Checked(files.Check)
	}
	const location = ".location" // Java's clients of Kafka have it behind these names
	m, errs := stores.ReadClient(map[string]string{
		keyDatabaseSslKeystore.Name + location: s.keystore, keyDatabaseSslKeystorePassword.Name: s.keystorePass.Reveal(),
		keyDatabaseSslTruststore.Name + location: s.truststore, keyDatabaseSslTruststorePassword.Name: s.truststorePass.Reveal(),
	}, open, nil)
	if len(errs) > 0 {
		why, _, _ := strings.Cut(errs[0].Reason, "; look at ") // a setting that Debezium does not have
		return nil, connectors.BadConfig(fmt.Errorf("%s: %s", strings.TrimSuffix(errs[0].Key, location), why))
	}
	c := m.ClientTLS()
	c.ServerName = s.host
	switch s.sslMode {
	case "verify_identity":
	case "verify_ca": // whoever the authorities vouch for, whatever its name
		javatls.SkipHostNames(c)
	default: // preferred, required: encrypted, whoever it is
		c.InsecureSkipVerify = true
	}
	return c, nil
}

package mysql

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"millrace/connectors"
)

// tls is how the connection is encrypted; nil: it is not. Certificates come from files in
// PEM: database.ssl.truststore holds those of authorities, database.ssl.keystore the
// client's and its key.
func (s *settings) tls(files connectors.Files) (*tls.Config, error) {
	if s.sslMode == "disabled" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.host}
	if s.truststore != "" {
		text, err := readPEM(files, keyDatabaseSslTruststore.Name, s.truststore)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, connectors.BadConfig(fmt.Errorf("%s: the file %s holds no certificate that can be read", keyDatabaseSslTruststore.Name, s.truststore))
		}
	}
	if s.keystore != "" {
		text, err := readPEM(files, keyDatabaseSslKeystore.Name, s.keystore)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(text, text)
		if err != nil {
			return nil, connectors.BadConfig(fmt.Errorf("%s: the file %s must hold a certificate and its key: %w", keyDatabaseSslKeystore.Name, s.keystore, err))
		}
		c.Certificates = []tls.Certificate{pair}
	}
	switch s.sslMode {
	case "verify_identity":
	case "verify_ca": // whoever the authorities vouch for, whatever its name
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(st tls.ConnectionState) error {
			if len(st.PeerCertificates) == 0 {
				return errors.New("the server showed no certificate")
			}
			between := x509.NewCertPool()
			for _, cert := range st.PeerCertificates[1:] {
				between.AddCert(cert)
			}
			_, err := st.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: c.RootCAs, Intermediates: between})
			return err
		}
	default: // preferred, required: encrypted, whoever it is
		c.InsecureSkipVerify = true
	}
	return c, nil
}

// readPEM reads a file of certificates.
func readPEM(files connectors.Files, key, path string) ([]byte, error) {
	if files != nil {
		checked, err := files.Check(path)
		if err != nil {
			return nil, connectors.BadConfig(fmt.Errorf("%s: %w", key, err))
		}
		path = checked
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, connectors.BadConfig(fmt.Errorf("%s: %w", key, err))
	}
	if block, _ := pem.Decode(text); block == nil {
		how := "openssl pkcs12 -in " + path + " -out store.pem -nodes"
		if bytes.HasPrefix(text, []byte{0xfe, 0xed, 0xfe, 0xed}) {
			how = "keytool -importkeystore -srckeystore " + path + " -destkeystore store.p12 -deststoretype pkcs12, then openssl pkcs12 -in store.p12 -out store.pem -nodes"
		}
		return nil, connectors.BadConfig(fmt.Errorf("%s: %s is a Java keystore; make a file in PEM of it (%s) and name that", key, path, how))
	}
	return text, nil
}

package javatls

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// block is one PEM block.
type block struct {
	kind string
	der  []byte
}

// blocks reads PEM leniently: in a properties file the whole text often stands on one line, with spaces where the
// breaks were. What stands between blocks is passed over.
func blocks(b []byte) (out []block, err error) {
	const begin, dashes = "-----BEGIN ", "-----"
	for {
		at := bytes.Index(b, []byte(begin))
		if at < 0 {
			return out, nil
		}
		b = b[at+len(begin):]
		end := bytes.Index(b, []byte(dashes))
		if end < 0 || end > 64 {
			return nil, errors.New("a PEM block has no end of its first line")
		}
		kind := string(b[:end])
		b = b[end+len(dashes):]
		last := []byte("-----END " + kind + dashes)
		if end = bytes.Index(b, last); end < 0 {
			return nil, fmt.Errorf("the PEM block %s has no end", kind)
		}
		text := b[:end]
		b = b[end+len(last):]
		if bytes.Contains(text, []byte("Proc-Type:")) {
			return nil, errors.New("the key is encrypted in OpenSSL's old way; convert it with: openssl pkcs8 -topk8 -in OLD.pem -out NEW.pem")
		}
		der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			return nil, fmt.Errorf("the PEM block %s is not base64", kind)
		}
		out = append(out, block{kind, der})
	}
}

func pemCertificates(b []byte) (out []*x509.Certificate, err error) {
	all, err := blocks(b)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.kind != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(p.der)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(out)+1, err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("there is no certificate in PEM in it")
	}
	return out, nil
}

// pemIdentity reads a key and its certificates, which may stand in one text.
func pemIdentity(keyText, chainText []byte, password string) (tls.Certificate, error) {
	all, err := blocks(keyText)
	if err != nil {
		return tls.Certificate{}, err
	}
	var key crypto.PrivateKey
	for _, p := range all {
		if !strings.HasSuffix(p.kind, "PRIVATE KEY") {
			continue
		}
		if key != nil {
			return tls.Certificate{}, errors.New("there is more than one private key in it")
		}
		switch p.kind {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(p.der)
		case "ENCRYPTED PRIVATE KEY":
			var der []byte
			if der, err = openPBES2(p.der, password); err == nil {
				key, err = x509.ParsePKCS8PrivateKey(der)
			}
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(p.der)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(p.der)
		default:
			err = fmt.Errorf("a %s is not read", p.kind)
		}
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("private key: %w", err)
		}
	}
	if key == nil {
		return tls.Certificate{}, errors.New("there is no private key in PEM in it")
	}
	chain, err := pemCertificates(chainText)
	if err != nil {
		return tls.Certificate{}, err
	}
	return identity(key, chain)
}

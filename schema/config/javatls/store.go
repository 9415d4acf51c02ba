package javatls

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"

	pkcs12 "software.sslmate.com/src/go-pkcs12"
)

// identity is a private key with its certificates, the key's own first.
func identity(key crypto.PrivateKey, chain []*x509.Certificate) (tls.Certificate, error) {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return tls.Certificate{}, fmt.Errorf("the key (%T) cannot sign", key)
	}
	if len(chain) == 0 {
		return tls.Certificate{}, errors.New("the key has no certificate")
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return tls.Certificate{}, fmt.Errorf("the key (%T) cannot be compared with its certificate", key)
	}
	own := -1
	for i, c := range chain {
		if public.Equal(c.PublicKey) {
			own = i
			break
		}
	}
	if own < 0 {
		return tls.Certificate{}, errors.New("no certificate belongs to the key")
	}
	out := tls.Certificate{PrivateKey: key, Leaf: chain[own], Certificate: [][]byte{chain[own].Raw}}
	for i, c := range chain {
		if i != own {
			out.Certificate = append(out.Certificate, c.Raw)
		}
	}
	return out, nil
}

const (
	magicJKS   = 0xfeedfeed
	magicJCEKS = 0xcececece
)

// kind tells stores apart by their first bytes.
func kind(b []byte) string {
	switch {
	case len(b) >= 4 && binary.BigEndian.Uint32(b) == magicJKS:
		return "JKS"
	case len(b) >= 4 && binary.BigEndian.Uint32(b) == magicJCEKS:
		return "JCEKS"
	case len(b) > 0 && b[0] == 0x30:
		return "PKCS12"
	case bytes.Contains(b, []byte("-----BEGIN ")):
		return "PEM"
	}
	return ""
}

func unknownKind(k string) error {
	if k == "JCEKS" {
		return fmt.Errorf("it is a JCEKS store, which is not read here; convert it with: %s", toPKCS12)
	}
	return errors.New("it holds neither PEM nor a PKCS12 or JKS store")
}

var errPassword = errors.New("the password does not open it")

// identities reads the keys of a key store with their certificates.
func identities(b []byte, storePassword, keyPassword string) ([]tls.Certificate, error) {
	switch k := kind(b); k {
	case "PEM":
		if keyPassword == "" {
			keyPassword = storePassword
		}
		id, err := pemIdentity(b, b, keyPassword)
		return []tls.Certificate{id}, err
	case "PKCS12":
		key, own, more, err := pkcs12.DecodeChain(b, storePassword)
		if err != nil {
			return nil, pkcs12Error(err)
		}
		id, err := identity(key, append([]*x509.Certificate{own}, more...))
		return []tls.Certificate{id}, err
	case "JKS":
		if keyPassword == "" {
			keyPassword = storePassword
		}
		s, err := readJKS(b, storePassword)
		if err != nil {
			return nil, err
		}
		var out []tls.Certificate
		for _, e := range s.keys {
			der, err := openJKSKey(e.sealed, keyPassword)
			if err != nil {
				return nil, fmt.Errorf("key %q: %w", e.alias, err)
			}
			key, err := x509.ParsePKCS8PrivateKey(der)
			if err != nil {
				return nil, fmt.Errorf("key %q: %w", e.alias, err)
			}
			id, err := identity(key, e.chain)
			if err != nil {
				return nil, fmt.Errorf("key %q: %w", e.alias, err)
			}
			out = append(out, id)
		}
		if len(out) == 0 {
			return nil, errors.New("the store holds no private key")
		}
		return out, nil
	default:
		return nil, unknownKind(k)
	}
}

// authorities reads the certificates of a trust store.
func authorities(b []byte, password string) ([]*x509.Certificate, error) {
	switch k := kind(b); k {
	case "PEM":
		return pemCertificates(b)
	case "PKCS12":
		certs, err := pkcs12.DecodeTrustStore(b, password)
		if err != nil {
			return nil, pkcs12Error(err)
		}
		if len(certs) == 0 {
			return nil, errors.New("the store holds no trusted certificate")
		}
		return certs, nil
	case "JKS":
		s, err := readJKS(b, password)
		if err != nil {
			return nil, err
		}
		if len(s.trusted) == 0 {
			return nil, errors.New("the store holds no trusted certificate")
		}
		return s.trusted, nil
	default:
		return nil, unknownKind(k)
	}
}

func pkcs12Error(err error) error {
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword), errors.Is(err, pkcs12.ErrDecryption):
		return errPassword
	}
	return fmt.Errorf("%w; a store of one key and its certificates is read, or one of trusted certificates", err)
}

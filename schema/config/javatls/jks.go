package javatls

import (
	"bytes"
	"crypto/sha1"
	"crypto/subtle"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
)

// Java's own key store, big-endian, as sun.security.provider.JavaKeyStore has always written it:
//
//	u32 0xfeedfeed, u32 version 1 or 2, u32 entries
//	an entry   u32 tag (1 key, 2 trusted certificate), text alias, i64 milliseconds
//	  key      u32 length, EncryptedPrivateKeyInfo (DER), u32 certificates, certificates
//	  trusted  a certificate
//	certificate  (version 2: text type), u32 length, DER
//	text       u16 length, modified UTF-8
//	at the end 20 bytes SHA-1 over the password in UTF-16BE, "Mighty Aphrodite", and everything before
//
// A key is sealed with SHA-1 as a stream: 20 bytes salt, the key XORed with SHA-1(password, salt), SHA-1(password,
// the last one) …, 20 bytes SHA-1(password, key). Fixed for ever.
type jks struct {
	keys    []jksKey
	trusted []*x509.Certificate
}

type jksKey struct {
	alias  string
	sealed []byte
	chain  []*x509.Certificate
}

var errCutOff = errors.New("the JKS store is cut off or damaged")

// javaBytes is a password as Java digests it.
func javaBytes(password string) []byte {
	var out []byte
	for _, u := range utf16.Encode([]rune(password)) {
		out = binary.BigEndian.AppendUint16(out, u)
	}
	return out
}

// readJKS reads a store. Like Java, it checks the whole only where a password is given.
func readJKS(b []byte, password string) (*jks, error) {
	if len(b) < 12+sha1.Size {
		return nil, errCutOff
	}
	body, sum := b[:len(b)-sha1.Size], b[len(b)-sha1.Size:]
	if password != "" {
		h := sha1.New()
		h.Write(javaBytes(password))
		h.Write([]byte("Mighty Aphrodite"))
		h.Write(body)
		if subtle.ConstantTimeCompare(h.Sum(nil), sum) != 1 {
			return nil, errPassword
		}
	}
	r := jksReader{b: body[4:]}
	r.version = r.u32()
	if r.version != 1 && r.version != 2 {
		return nil, fmt.Errorf("the JKS store has version %d; 1 and 2 are known", r.version)
	}
	s := &jks{}
	for range r.u32() {
		tag, alias := r.u32(), string(r.bytes(int(r.u16())))
		r.bytes(8)
		switch {
		case r.err != nil:
			return nil, r.err
		case tag == 1:
			k := jksKey{alias: alias, sealed: r.bytes(int(r.u32()))}
			for range r.u32() {
				c := r.certificate()
				if r.err != nil {
					return nil, fmt.Errorf("key %q: %w", alias, r.err)
				}
				k.chain = append(k.chain, c)
			}
			s.keys = append(s.keys, k)
		case tag == 2:
			c := r.certificate()
			if r.err != nil {
				return nil, fmt.Errorf("certificate %q: %w", alias, r.err)
			}
			s.trusted = append(s.trusted, c)
		default:
			return nil, errCutOff
		}
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = errCutOff
	}
	return s, r.err
}

// jksReader reads a store's body. After an error everything it returns is zero.
type jksReader struct {
	b       []byte
	version uint32
	err     error
}

func (r *jksReader) bytes(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.err = errCutOff
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *jksReader) u16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *jksReader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *jksReader) certificate() *x509.Certificate {
	if r.version == 2 {
		if kind := string(r.bytes(int(r.u16()))); r.err == nil && kind != "X.509" {
			r.err = fmt.Errorf("it is of type %q; X.509 is known", kind)
		}
	}
	der := r.bytes(int(r.u32()))
	if r.err != nil {
		return nil
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		r.err = err
	}
	return c
}

var oidJavaKeyProtector = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 42, 2, 17, 1, 1}

// openJKSKey takes a key out of its seal.
func openJKSKey(der []byte, password string) ([]byte, error) {
	var k sealedKey
	if rest, err := asn1.Unmarshal(der, &k); err != nil || len(rest) > 0 {
		return nil, errCutOff
	}
	if !k.Algorithm.Algorithm.Equal(oidJavaKeyProtector) || len(k.Sealed) < 2*sha1.Size {
		return nil, fmt.Errorf("it is sealed in an unknown way; convert the store with: %s", toPKCS12)
	}
	n := len(k.Sealed) - 2*sha1.Size
	salt, sealed, sum := k.Sealed[:sha1.Size], k.Sealed[sha1.Size:][:n], k.Sealed[sha1.Size+n:]
	pw := javaBytes(password)
	plain := make([]byte, n)
	last := salt
	for at := 0; at < n; at += sha1.Size {
		x := sha1.Sum(append(bytes.Clone(pw), last...))
		last = x[:]
		subtle.XORBytes(plain[at:], sealed[at:], last)
	}
	check := sha1.Sum(append(bytes.Clone(pw), plain...))
	if subtle.ConstantTimeCompare(check[:], sum) != 1 {
		return nil, errPassword
	}
	return plain, nil
}

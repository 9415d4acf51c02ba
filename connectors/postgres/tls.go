package postgres

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"net"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"millrace/connectors"
	"millrace/schema/config"
)

// encryptions are the ways in which database.sslmode has a connection tried, in order:
// with TLS, or nil for without. A mode that does not check the server's certificate
// checks it all the same where database.sslrootcert is given and TLS is required, as
// libpq does.
func (s *settings) encryptions(files connectors.Files) ([]*tls.Config, error) {
	if s.sslMode == "disable" {
		return []*tls.Config{nil}, nil
	}
	read := func(key, path string) ([]byte, error) {
		if path == "" {
			return nil, nil
		}
		if files != nil {
			var err error
			if path, err = files.Check(path); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		return b, nil
	}
	root, err := read(keyDatabaseSslrootcert.Name, s.sslRootCert)
	if err != nil {
		return nil, err
	}
	cert, err := read(keyDatabaseSslcert.Name, s.sslCert)
	if err != nil {
		return nil, err
	}
	key, err := read(keyDatabaseSslkey.Name, s.sslKey)
	if err != nil {
		return nil, err
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.host}
	if root != nil {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(root) {
			return nil, fmt.Errorf("%s: %s holds no certificate in the PEM form", keyDatabaseSslrootcert.Name, s.sslRootCert)
		}
	}
	switch {
	case s.sslMode == "verify-full":
	case s.sslMode == "verify-ca", s.sslMode == "require" && root != nil:
		t.InsecureSkipVerify = true // the name alone is not checked
		t.VerifyConnection = func(cs tls.ConnectionState) error {
			o := x509.VerifyOptions{Roots: t.RootCAs, Intermediates: x509.NewCertPool()}
			for _, c := range cs.PeerCertificates[1:] {
				o.Intermediates.AddCert(c)
			}
			_, err := cs.PeerCertificates[0].Verify(o)
			return err
		}
	default:
		t.InsecureSkipVerify = true
	}
	switch {
	case cert == nil && key == nil:
	case cert == nil || key == nil:
		return nil, fmt.Errorf("%s and %s go together: give both or none", keyDatabaseSslcert.Name, keyDatabaseSslkey.Name)
	default:
		pair, err := clientCertificate(cert, key, s.sslPassword)
		if err != nil {
			return nil, err
		}
		t.Certificates = []tls.Certificate{pair}
	}
	switch s.sslMode {
	case "allow":
		return []*tls.Config{nil, t}, nil
	case "prefer":
		return []*tls.Config{t, nil}, nil
	}
	return []*tls.Config{t}, nil
}

// dial connects in the first way that the server takes.
func (s *settings) dial(ctx context.Context, files connectors.Files, cfg *pgconn.Config) (*pgconn.PgConn, error) {
	ways, err := s.encryptions(files)
	if err != nil {
		return nil, connectors.BadConfig(err)
	}
	cfg.Fallbacks = nil
	dial := cfg.DialFunc
	for i, way := range ways {
		var last *asked
		cfg.TLSConfig, cfg.DialFunc = way, dial
		if way != nil {
			cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				last = &asked{Conn: conn}
				return last, nil
			}
		}
		var conn *pgconn.PgConn
		if conn, err = pgconn.ConnectConfig(ctx, cfg); err == nil {
			return conn, nil
		}
		refused := last != nil && last.refused
		if refused {
			err = fmt.Errorf("%w: %w", errNoTLS, err)
		}
		// The second way is for a server that takes connections of the other kind alone, or
		// lets this user in over the other kind alone.
		if i == 0 && !refused && sqlState(err) != "28000" {
			break
		}
	}
	return nil, err
}

var errNoTLS = errors.New("the server takes no encrypted connections")

// asked is a connection that notes the server's answer to the question whether it takes TLS, its first byte: S or N. The
// driver tells it in words alone.
type asked struct {
	net.Conn
	answered, refused bool
}

func (a *asked) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	if n > 0 && !a.answered {
		a.answered, a.refused = true, b[0] == 'N'
	}
	return n, err
}

// clientCertificate reads a certificate and its key: the key in the PEM form, or as
// Java's driver wants it: PKCS 8 in the DER form. It may be encrypted.
func clientCertificate(cert, key []byte, password config.Password) (tls.Certificate, error) {
	if !strings.Contains(string(cert), "-----BEGIN ") { // DER
		cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	}
	der, kind := key, "PRIVATE KEY"
	if b, _ := pem.Decode(key); b != nil {
		der, kind = b.Bytes, b.Type
		//lint:ignore SA1019 weak, and what old keys have
		if x509.IsEncryptedPEMBlock(b) {
			var err error
			//lint:ignore SA1019 as above
			if der, err = x509.DecryptPEMBlock(b, []byte(password.Reveal())); err != nil {
				return tls.Certificate{}, fmt.Errorf("%s cannot be decrypted with %s: %w", keyDatabaseSslkey.Name, keyDatabaseSslpassword.Name, err)
			}
		}
	}
	if plain, encrypted, err := decryptPKCS8(der, password.Reveal()); err != nil {
		return tls.Certificate{}, fmt.Errorf("%s cannot be decrypted with %s: %w", keyDatabaseSslkey.Name, keyDatabaseSslpassword.Name, err)
	} else if encrypted {
		der, kind = plain, "PRIVATE KEY"
	}
	pair, err := tls.X509KeyPair(cert, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	if err != nil {
		return pair, fmt.Errorf("%s and %s: %w", keyDatabaseSslcert.Name, keyDatabaseSslkey.Name, err)
	}
	return pair, nil
}

// The parts of an encrypted key (RFC 5208, RFC 8018: PBES2).
type (
	encryptedKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2Params struct{ KDF, Cipher pkix.AlgorithmIdentifier }
	pbkdfParams struct {
		Salt      []byte
		Rounds    int
		KeyLength int                      `asn1:"optional"`
		PRF       pkix.AlgorithmIdentifier `asn1:"optional"`
	}
)

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	prfs      = map[string]func() hash.Hash{"": sha1.New, "1.2.840.113549.2.7": sha1.New, "1.2.840.113549.2.9": sha256.New, "1.2.840.113549.2.10": sha512.New384, "1.2.840.113549.2.11": sha512.New}
	ciphers   = map[string]struct {
		key int
		new func([]byte) (cipher.Block, error)
	}{
		"2.16.840.1.101.3.4.1.2": {16, aes.NewCipher}, "2.16.840.1.101.3.4.1.22": {24, aes.NewCipher}, "2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
		"1.2.840.113549.3.7": {24, des.NewTripleDESCipher},
	}
)

// mostRounds bounds what a key's file may have us compute.
const mostRounds = 10_000_000

// decryptPKCS8 decrypts a key that is encrypted; encrypted is false for another.
func decryptPKCS8(der []byte, password string) (plain []byte, encrypted bool, err error) {
	var k encryptedKey
	if rest, err := asn1.Unmarshal(der, &k); err != nil || len(rest) > 0 || len(k.Data) == 0 {
		return nil, false, nil
	}
	if !k.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, true, fmt.Errorf("its encryption (%s) is not supported; make it anew with openssl pkcs8 -topk8 -v2 aes-256-cbc", k.Algorithm.Algorithm)
	}
	var p pbes2Params
	if _, err := asn1.Unmarshal(k.Algorithm.Parameters.FullBytes, &p); err != nil {
		return nil, true, err
	}
	var kdf pbkdfParams
	if !p.KDF.Algorithm.Equal(oidPBKDF2) {
		return nil, true, fmt.Errorf("its key derivation (%s) is not supported; make it anew with openssl pkcs8 -topk8 -v2 aes-256-cbc", p.KDF.Algorithm)
	}
	if _, err := asn1.Unmarshal(p.KDF.Parameters.FullBytes, &kdf); err != nil {
		return nil, true, err
	}
	prf, known := prfs[kdf.PRF.Algorithm.String()]
	c, able := ciphers[p.Cipher.Algorithm.String()]
	if !known || !able || kdf.Rounds < 1 || kdf.Rounds > mostRounds {
		return nil, true, errors.New("its encryption is not supported; make it anew with openssl pkcs8 -topk8 -v2 aes-256-cbc")
	}
	var iv []byte
	if _, err := asn1.Unmarshal(p.Cipher.Parameters.FullBytes, &iv); err != nil {
		return nil, true, err
	}
	key, err := pbkdf2.Key(prf, password, kdf.Salt, kdf.Rounds, c.key)
	if err != nil {
		return nil, true, err
	}
	block, err := c.new(key)
	if err != nil {
		return nil, true, err
	}
	if len(iv) != block.BlockSize() || len(k.Data)%block.BlockSize() != 0 {
		return nil, true, errors.New("it is damaged")
	}
	out := make([]byte, len(k.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(out, k.Data)
	n := int(out[len(out)-1])
	if n < 1 || n > block.BlockSize() {
		return nil, true, errors.New("the password is wrong")
	}
	out = out[:len(out)-n]
	if _, err := x509.ParsePKCS8PrivateKey(out); err != nil {
		return nil, true, errors.New("the password is wrong")
	}
	return out, true, nil
}

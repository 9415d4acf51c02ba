package javatls

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// Encrypted private keys (RFC 5958) with a password (RFC 8018, PBES2), DER:
//
//	EncryptedPrivateKeyInfo  SEQUENCE { algorithm, OCTET STRING sealed }
//	algorithm                SEQUENCE { OID PBES2, SEQUENCE { derivation, encryption } }
//	derivation               SEQUENCE { OID PBKDF2, SEQUENCE { OCTET STRING salt, INTEGER rounds, INTEGER length OPTIONAL, prf DEFAULT HMAC-SHA1 } }
//	encryption               SEQUENCE { OID of the cipher in CBC, OCTET STRING iv }
type sealedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Sealed    []byte
}

type pbes2 struct {
	Derivation, Encryption pkix.AlgorithmIdentifier
}

type pbkdf2Params struct {
	Salt   []byte
	Rounds int
	Length int                      `asn1:"optional"`
	PRF    pkix.AlgorithmIdentifier `asn1:"optional"`
}

const maxRounds = 10_000_000 // a few seconds; OpenSSL's default is 2048, Java's 10,000

type blockCipher struct {
	keyLen int
	make   func(key []byte) (cipher.Block, error)
}

var ciphersByOID = map[string]blockCipher{
	"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
}

var hashesByOID = map[string]func() hash.Hash{
	"1.2.840.113549.2.7":  sha1.New,
	"1.2.840.113549.2.8":  sha256.New224,
	"1.2.840.113549.2.9":  sha256.New,
	"1.2.840.113549.2.10": sha512.New384,
	"1.2.840.113549.2.11": sha512.New,
}

// openPBES2 decrypts a PKCS #8 key.
func openPBES2(der []byte, password string) ([]byte, error) {
	var k sealedKey
	if rest, err := asn1.Unmarshal(der, &k); err != nil || len(rest) > 0 {
		return nil, errors.New("it is no encrypted PKCS #8 key")
	}
	another := func(what string) error {
		return fmt.Errorf("it is encrypted with %s, which is not read here; convert it with: openssl pkcs8 -in OLD.pem | openssl pkcs8 -topk8 -v2 aes256 -out NEW.pem", what)
	}
	if oid := k.Algorithm.Algorithm.String(); oid != "1.2.840.113549.1.5.13" {
		return nil, another("algorithm " + oid)
	}
	var p pbes2
	if rest, err := asn1.Unmarshal(k.Algorithm.Parameters.FullBytes, &p); err != nil || len(rest) > 0 {
		return nil, errors.New("its parameters cannot be read")
	}
	if oid := p.Derivation.Algorithm.String(); oid != "1.2.840.113549.1.5.12" {
		return nil, another("key derivation " + oid)
	}
	var d pbkdf2Params
	if rest, err := asn1.Unmarshal(p.Derivation.Parameters.FullBytes, &d); err != nil || len(rest) > 0 {
		return nil, errors.New("its key derivation cannot be read")
	}
	if d.Rounds < 1 || d.Rounds > maxRounds {
		return nil, fmt.Errorf("its key is derived in %d rounds; at most %d are", d.Rounds, maxRounds)
	}
	h := sha1.New
	if oid := d.PRF.Algorithm.String(); oid != "" {
		if h = hashesByOID[oid]; h == nil {
			return nil, another("hash " + oid)
		}
	}
	c, ok := ciphersByOID[p.Encryption.Algorithm.String()]
	if !ok {
		return nil, another("cipher " + p.Encryption.Algorithm.String())
	}
	var iv []byte
	if _, err := asn1.Unmarshal(p.Encryption.Parameters.FullBytes, &iv); err != nil {
		return nil, errors.New("its cipher's parameters cannot be read")
	}
	if password == "" {
		return nil, errors.New("it is encrypted, and no password is given")
	}
	key, err := pbkdf2.Key(h, password, d.Salt, d.Rounds, c.keyLen)
	if err != nil {
		return nil, err
	}
	b, err := c.make(key)
	if err != nil {
		return nil, err
	}
	if len(iv) != b.BlockSize() || len(k.Sealed) == 0 || len(k.Sealed)%b.BlockSize() != 0 {
		return nil, errors.New("its length is wrong")
	}
	plain := make([]byte, len(k.Sealed))
	cipher.NewCBCDecrypter(b, iv).CryptBlocks(plain, k.Sealed)
	pad := int(plain[len(plain)-1])
	if pad < 1 || pad > b.BlockSize() {
		return nil, errPassword
	}
	for _, x := range plain[len(plain)-pad:] {
		if int(x) != pad {
			return nil, errPassword
		}
	}
	return plain[:len(plain)-pad], nil
}

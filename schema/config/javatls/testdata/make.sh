#!/usr/bin/env bash
# Makes the stores of the tests with the tools that people make theirs with. The password is "changeit"; key.jks holds a
# key with a password of its own, "keypass". They are valid for 100 years.
set -euo pipefail
cd "$(dirname "$0")"
rm -f *.jks *.p12 *.pem *.srl
new() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -keyout "$1.key" -out "$1.crt" -subj "$2" 2>/dev/null; }
new ca "/CN=Test Authority/O=Millrace"
new other "/CN=Another Authority"
sign() { # name subject san
	openssl req -newkey "${4:-rsa:2048}" -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2>/dev/null
	openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 36500 -extfile <(echo "subjectAltName=$3") -out "$1.crt" 2>/dev/null
}
sign server "/CN=server/O=Millrace" "DNS:localhost,IP:127.0.0.1"
sign client "/CN=alice/OU=Sales, North/O=Millrace" "DNS:alice"
cat server.key server.crt ca.crt > server.pem
cat client.key client.crt > client.pem
cp ca.crt ca.pem
cp other.crt other.pem
openssl pkcs8 -topk8 -v2 aes256 -in server.key -passout pass:changeit -out sealed.key
cat sealed.key server.crt ca.crt > sealed.pem
openssl pkcs8 -topk8 -v2 des3 -v2prf hmacWithSHA1 -in server.key -passout pass:changeit -out sealed3.key
cat sealed3.key server.crt > sealed3.pem
openssl pkcs8 -topk8 -scrypt -in server.key -passout pass:changeit -out scrypt.key
cat scrypt.key server.crt > scrypt.pem
openssl pkcs12 -export -in server.crt -inkey server.key -certfile ca.crt -name server -passout pass:changeit -out server.p12
openssl pkcs12 -export -in client.crt -inkey client.key -certfile ca.crt -name client -passout pass:changeit -out client.p12
keytool -importkeystore -noprompt -srckeystore server.p12 -srcstorepass changeit -destkeystore java.p12 -deststoretype PKCS12 -deststorepass changeit 2>/dev/null
keytool -importkeystore -noprompt -srckeystore server.p12 -srcstorepass changeit -destkeystore server.jks -deststoretype JKS -deststorepass changeit 2>/dev/null
keytool -importkeystore -noprompt -srckeystore server.p12 -srcstorepass changeit -srcalias server -destkeystore key.jks -deststoretype JKS -deststorepass changeit -destkeypass keypass 2>/dev/null
keytool -importcert -noprompt -file ca.crt -alias ca -keystore trust.jks -storetype JKS -storepass changeit 2>/dev/null
keytool -importcert -noprompt -file ca.crt -alias ca -keystore trust.p12 -storetype PKCS12 -storepass changeit 2>/dev/null
keytool -importcert -noprompt -file ca.crt -alias ca -keystore trust.jceks -storetype JCEKS -storepass changeit 2>/dev/null
rm -f *.key *.crt *.csr *.srl

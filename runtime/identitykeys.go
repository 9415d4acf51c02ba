package runtime

import (
	"fmt"
	"slices"

	"millrace/schema/config"
	"millrace/schema/config/signin"
)

// Reasons that several settings share.
const (
	noKerberos = "there is no Kerberos; sasl.mechanism can be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
	ownLogin   = "a login is made anew when a connection needs it"
	assertions = "OAuth is spoken with client credentials"
	verifier   = "it is for whoever verifies tokens"
)

// The settings with which a client proves who it is, and asks the cluster for a proof. They name a
// cluster and an identity: what a connector may say of them, and whether, is decided apart.
var (
	bootstrapServers = config.Key[[]string]{Name: "bootstrap.servers", Doc: "Addresses of brokers of the cluster, HOST:PORT separated by commas.", EmptyDefault: true, Importance: config.High}
	securityProtocol = config.Key[string]{Name: "security.protocol", Doc: "How the cluster is reached: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.", Default: "PLAINTEXT", Check: oneOfAnyCase("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")}
	saslMechanism    = config.Key[string]{Name: "sasl.mechanism", Doc: "How the client signs in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.", Default: "GSSAPI"}
	saslJaas         = config.Key[config.Password]{Name: "sasl.jaas.config", Doc: "Login module with its options, in JAAS form. Only Kafka's Plain, Scram and OAuthBearer modules are taken.", Check: func(p config.Password) error { _, err := signin.ParseJaas(p.Reveal()); return err }}

	oauthURL    = config.Key[string]{Name: "sasl.oauthbearer.token.endpoint.url", Doc: "Where tokens are asked for with sasl.mechanism=OAUTHBEARER: an http or https URL, or the file: URL of a file that holds one."}
	oauthClient = config.Key[string]{Name: "sasl.oauthbearer.client.credentials.client.id", Doc: "Id with which tokens are asked for."}
	oauthSecret = config.Key[config.Password]{Name: "sasl.oauthbearer.client.credentials.client.secret", Doc: "Secret with which tokens are asked for."}
	oauthScope  = config.Key[string]{Name: "sasl.oauthbearer.scope", Doc: "Scope of the tokens that are asked for."}

	// Classes that are Kafka's own mean what we do anyway; with another one the client would be somebody else, or nobody.
	loginHandler  = ownClass("sasl.login.callback.handler.class", oauthPackage+"OAuthBearerLoginCallbackHandler", oauthPackage+"secured.OAuthBearerLoginCallbackHandler", oauthPackage+"internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler")
	clientHandler = ownClass("sasl.client.callback.handler.class", oauthPackage+"internals.OAuthBearerSaslClientCallbackHandler", "org.apache.kafka.common.security.authenticator.SaslClientCallbackHandler")
	loginClass    = ownClass("sasl.login.class", oauthPackage+"internals.OAuthBearerRefreshingLogin", "org.apache.kafka.common.security.authenticator.DefaultLogin")
	tokenSource   = ownClass("sasl.oauthbearer.jwt.retriever.class", oauthPackage+"DefaultJwtRetriever", oauthPackage+"ClientCredentialsJwtRetriever", oauthPackage+"FileJwtRetriever")

	sslKeystore     = config.Key[string]{Name: "ssl.keystore.location", Doc: "File of the client's certificate and key.", Importance: config.High}
	sslKeystorePass = config.Key[config.Password]{Name: "ssl.keystore.password", Doc: "Password of that file.", Importance: config.High}
	sslKeystoreType = config.Key[string]{Name: "ssl.keystore.type", Doc: "Form of that file.", Default: "JKS"}
	sslKey          = config.Key[config.Password]{Name: "ssl.keystore.key", Doc: "The client's key itself, in PEM form.", Importance: config.High}
	sslChain        = config.Key[config.Password]{Name: "ssl.keystore.certificate.chain", Doc: "The client's certificates themselves, in PEM form.", Importance: config.High}
	sslKeyPass      = config.Key[config.Password]{Name: "ssl.key.password", Doc: "Password of the key.", Importance: config.High}
	sslTrust        = config.Key[string]{Name: "ssl.truststore.location", Doc: "File of the certificates that are trusted.", Importance: config.High}
	sslTrustPass    = config.Key[config.Password]{Name: "ssl.truststore.password", Doc: "Password of that file.", Importance: config.High}
	sslTrustType    = config.Key[string]{Name: "ssl.truststore.type", Doc: "Form of that file.", Default: "JKS"}
	sslTrusted      = config.Key[config.Password]{Name: "ssl.truststore.certificates", Doc: "The certificates that are trusted themselves, in PEM form.", Importance: config.High}
	sslProtocols    = config.Key[[]string]{Name: "ssl.enabled.protocols", Doc: "Versions of TLS that are spoken.", Default: []string{"TLSv1.2", "TLSv1.3"}}
	sslCiphers      = config.Key[[]string]{Name: "ssl.cipher.suites", Doc: "Cipher suites of TLS 1.2 that are spoken.", EmptyDefault: true, Importance: config.Low}
	sslEndpoint     = config.Key[string]{Name: "ssl.endpoint.identification.algorithm", Doc: "https: the certificate must be the host's. Empty: it need not.", Default: "https", Importance: config.Low}
)

const oauthPackage = "org.apache.kafka.common.security.oauthbearer."

// ownClass is a setting that names one of Kafka's own classes, as configurations of Java's clients must, or is refused.
func ownClass(name string, known ...string) config.Key[config.Class] {
	return config.Key[config.Class]{Name: name, Doc: "One of Kafka's own classes: what it does the worker does by itself.", Check: func(c config.Class) error {
		if c != "" && !slices.Contains(known, string(c)) {
			return fmt.Errorf("%s cannot be loaded, since there is no JVM, and what it signs in with is not known: take it out and sign in with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER (client credentials, or a token in a file) or a client's certificate", c)
		}
		return nil
	}}
}

var identityFields = []config.Field{bootstrapServers, securityProtocol, saslMechanism, saslJaas, oauthURL, oauthClient, oauthSecret, oauthScope,
	loginHandler, clientHandler, loginClass, tokenSource, sslKeystore, sslKeystorePass, sslKeystoreType, sslKey, sslChain, sslKeyPass, sslTrust, sslTrustPass, sslTrustType, sslTrusted, sslProtocols, sslCiphers, sslEndpoint}

// identityUnused are those of Java's identity settings that mean nothing here.
var identityUnused = []clientSetting{
	unused(anyClient, config.Key[string]{Name: "ssl.protocol", Default: "TLSv1.3"}, "ssl.enabled.protocols says which versions of TLS are spoken"),
	unused(anyClient, config.Key[string]{Name: "ssl.provider"}, noJVM),
	unused(anyClient, config.Key[string]{Name: "ssl.keymanager.algorithm", Default: "SunX509", Importance: config.Low}, noJVM),
	unused(anyClient, config.Key[string]{Name: "ssl.trustmanager.algorithm", Default: "PKIX", Importance: config.Low}, noJVM),
	unused(anyClient, config.Key[string]{Name: "ssl.secure.random.implementation", Importance: config.Low}, noJVM),
	unused(anyClient, config.Key[config.Class]{Name: "ssl.engine.factory.class", Importance: config.Low}, noClasses),
	unused(anyClient, config.Key[string]{Name: "sasl.kerberos.service.name"}, noKerberos),
	unused(anyClient, config.Key[string]{Name: "sasl.kerberos.kinit.cmd", Default: "/usr/bin/kinit", Importance: config.Low}, noKerberos),
	unused(anyClient, config.Key[float64]{Name: "sasl.kerberos.ticket.renew.window.factor", Default: 0.8, Importance: config.Low}, noKerberos),
	unused(anyClient, config.Key[float64]{Name: "sasl.kerberos.ticket.renew.jitter", Default: 0.05, Importance: config.Low}, noKerberos),
	unused(anyClient, config.Key[int64]{Name: "sasl.kerberos.min.time.before.relogin", Default: 60000, Importance: config.Low}, noKerberos),
	unused(anyClient, config.Key[float64]{Name: "sasl.login.refresh.window.factor", Default: 0.8, Importance: config.Low}, ownLogin),
	unused(anyClient, config.Key[float64]{Name: "sasl.login.refresh.window.jitter", Default: 0.05, Importance: config.Low}, ownLogin),
	unused(anyClient, config.Key[int16]{Name: "sasl.login.refresh.min.period.seconds", Default: 60, Importance: config.Low}, ownLogin),
	unused(anyClient, config.Key[int16]{Name: "sasl.login.refresh.buffer.seconds", Default: 300, Importance: config.Low}, ownLogin),
	unused(anyClient, config.Key[int32]{Name: "sasl.login.connect.timeout.ms", NullDefault: true, Importance: config.Low}, ownLogin),
	unused(anyClient, config.Key[int32]{Name: "sasl.login.read.timeout.ms", NullDefault: true, Importance: config.Low}, ownLogin),
	unused(anyClient, config.Key[int64]{Name: "sasl.login.retry.backoff.max.ms", Default: 10000, Importance: config.Low}, ownLogin),
	unused(anyClient, config.Key[int64]{Name: "sasl.login.retry.backoff.ms", Default: 100, Importance: config.Low}, ownLogin),
	unused(anyClient, config.Key[config.Class]{Name: "sasl.oauthbearer.jwt.validator.class", Default: "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"}, noClasses),
	unused(anyClient, config.Key[string]{Name: "sasl.oauthbearer.assertion.algorithm", Default: "RS256"}, assertions),
	unused(anyClient, config.Key[string]{Name: "sasl.oauthbearer.assertion.claim.aud"}, assertions),
	unused(anyClient, config.Key[int32]{Name: "sasl.oauthbearer.assertion.claim.exp.seconds", Default: 300, Importance: config.Low}, assertions),
	unused(anyClient, config.Key[string]{Name: "sasl.oauthbearer.assertion.claim.iss"}, assertions),
	unused(anyClient, config.Key[bool]{Name: "sasl.oauthbearer.assertion.claim.jti.include"}, assertions),
	unused(anyClient, config.Key[int32]{Name: "sasl.oauthbearer.assertion.claim.nbf.seconds", Default: 60, Importance: config.Low}, assertions),
	unused(anyClient, config.Key[string]{Name: "sasl.oauthbearer.assertion.claim.sub"}, assertions),
	unused(anyClient, config.Key[string]{Name: "sasl.oauthbearer.assertion.file"}, assertions),
	unused(anyClient, config.Key[string]{Name: "sasl.oauthbearer.assertion.private.key.file"}, assertions),
	unused(anyClient, config.Key[config.Password]{Name: "sasl.oauthbearer.assertion.private.key.passphrase"}, assertions),
	unused(anyClient, config.Key[string]{Name: "sasl.oauthbearer.assertion.template.file"}, assertions),
	unused(anyClient, config.Key[string]{Name: "sasl.oauthbearer.scope.claim.name", Default: "scope", Importance: config.Low}, verifier),
	unused(anyClient, config.Key[string]{Name: "sasl.oauthbearer.sub.claim.name", Default: "sub", Importance: config.Low}, verifier),
	unused(anyClient, config.Key[string]{Name: "sasl.oauthbearer.jwks.endpoint.url"}, verifier),
	unused(anyClient, config.Key[int64]{Name: "sasl.oauthbearer.jwks.endpoint.refresh.ms", Default: 3600000, Importance: config.Low}, verifier),
	unused(anyClient, config.Key[int64]{Name: "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Default: 10000, Importance: config.Low}, verifier),
	unused(anyClient, config.Key[int64]{Name: "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Default: 100, Importance: config.Low}, verifier),
	unused(anyClient, config.Key[int32]{Name: "sasl.oauthbearer.clock.skew.seconds", Default: 30, Importance: config.Low}, verifier),
	unused(anyClient, config.Key[bool]{Name: "sasl.oauthbearer.allow.unverified.audience"}, verifier),
	unused(anyClient, config.Key[[]string]{Name: "sasl.oauthbearer.expected.audience", EmptyDefault: true, Importance: config.High}, verifier),
	unused(anyClient, config.Key[bool]{Name: "sasl.oauthbearer.allow.unverified.issuer"}, verifier),
	unused(anyClient, config.Key[string]{Name: "sasl.oauthbearer.expected.issuer", Importance: config.High}, verifier),
	unused(anyClient, config.Key[bool]{Name: "sasl.oauthbearer.header.urlencode", Importance: config.Low}, "client id and secret are always encoded as OAuth wants it"),
}

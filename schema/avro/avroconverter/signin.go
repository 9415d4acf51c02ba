package avroconverter

import (
	"context"
	"net/http"
	"strings"
	"time"

	"millrace/schema/config"
	"millrace/schema/config/signin"
	"millrace/schema/registry/client"
)

// signIn adds to o what signs in at the registry. Tokens are asked for over t.
func signIn(o *client.Options, v config.Values, t http.RoundTripper) error {
	switch strings.ToUpper(authSource.Get(v)) {
	case "USER_INFO":
		key, text := userInfo, userInfo.Get(v).Reveal()
		if old := oldUserInfo.Get(v).Reveal(); old != "" {
			key, text = oldUserInfo, old
		}
		user, password, ok := strings.Cut(text, ":")
		if !ok || user == "" {
			return key.Errorf(v, "with %s=USER_INFO it is user:password", authSource.Name)
		}
		o.User, o.Password = user, password
	case "SASL_INHERIT":
		login, _ := signin.ParseJaas(jaas.Get(v).Reveal()) // checked, but for none
		if o.User, o.Password = login.Options["username"], login.Options["password"]; o.User == "" {
			return jaas.Errorf(v, "with %s=SASL_INHERIT it is a login module with a username and a password", authSource.Name)
		}
	}
	of := signin.Client{}
	switch strings.ToUpper(bearerSource.Get(v)) {
	case "OAUTHBEARER":
		of = signin.Client{Endpoint: bearerURL.Get(v), ID: bearerClient.Get(v), Secret: bearerSecret.Get(v).Reveal(), Scope: bearerScope.Get(v)}
		switch "" {
		case of.Endpoint:
			return bearerURL.Errorf(v, "with %s=OAUTHBEARER it is the address that gives tokens", bearerSource.Name)
		case of.ID:
			return bearerClient.Errorf(v, "with %s=OAUTHBEARER it is the id of a client", bearerSource.Name)
		case of.Secret:
			return bearerSecret.Errorf(v, "with %s=OAUTHBEARER it is the client's secret", bearerSource.Name)
		}
	case "SASL_OAUTHBEARER_INHERIT":
		login, _ := signin.ParseJaas(jaas.Get(v).Reveal())
		of = signin.Client{Endpoint: saslURL.Get(v), ID: login.Options["clientId"], Secret: login.Options["clientSecret"], Scope: login.Options["scope"]}
		switch "" {
		case of.Endpoint:
			return saslURL.Errorf(v, "with %s=SASL_OAUTHBEARER_INHERIT it is the address that gives tokens", bearerSource.Name)
		case of.ID, of.Secret:
			return jaas.Errorf(v, "with %s=SASL_OAUTHBEARER_INHERIT it is a login module with a clientId and a clientSecret", bearerSource.Name)
		}
	default:
		token := bearerToken.Get(v).Reveal()
		if token == "" {
			return nil
		}
		o.Token = func(context.Context) (string, error) { return token, nil }
	}
	if o.Token == nil {
		o.Token = signin.NewTokens(of, t, time.Duration(bearerEarly.Get(v))*time.Second).Token
	}
	for header, value := range map[string]string{"target-sr-cluster": bearerCluster.Get(v), "Confluent-Identity-Pool-Id": bearerPool.Get(v)} {
		if value != "" {
			o.Headers[header] = value
		}
	}
	return nil
}

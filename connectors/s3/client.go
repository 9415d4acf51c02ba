package s3

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"millrace/connectors"
	"millrace/schema/config"
)

// maxBackoff bounds the pause between two attempts.
const maxBackoff = 20 * time.Second

// standstill is how long a new client's connections may stand still that are waited for, be it in the middle of an answer.
var standstill = 2 * time.Minute

// movingConn is a connection that breaks when nothing goes either way for too long. The client of HTTP has no such limit for the rest of an answer.
type movingConn struct {
	net.Conn
	still time.Duration
}

func (c *movingConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.still)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write moves the limit of a Read that waits beside it for the answer, too.
func (c *movingConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.still)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// newClient makes a client of the settings. Credentials are looked for when they are first needed.
func newClient(ctx context.Context, cc connectors.Context, v config.Values) (*s3.Client, error) {
	still := standstill
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &movingConn{c, still}, nil
		}
		t.ResponseHeaderTimeout = still
		t.MaxIdleConnsPerHost = 16
		if text := proxyURL.Get(v); text != "" {
			u, err := url.Parse(text)
			if err == nil {
				if user := proxyUser.Get(v); user != "" {
					u.User = url.UserPassword(user, proxyPassword.Get(v).Reveal())
				}
				t.Proxy = http.ProxyURL(u)
			}
		}
	})
	attempts := int(partRetries.Get(v)) + 1
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithRegion(region.Get(v)), awsconfig.WithHTTPClient(transport),
		awsconfig.WithLogger(logging.Nop{}), // what matters is in errors
		awsconfig.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts, o.MaxBackoff = attempts, maxBackoff
				o.Backoff = backoff{retryBackoff.Get(v)}
				o.RateLimiter = unlimited{} // attempts are bounded already
			})
		}),
	}
	if id := accessKey.Get(v); id != "" {
		options = append(options, awsconfig.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(id, secretKey.Get(v).Reveal(), "")))
	}
	conf, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, connectors.Failed(&noCredentials, err, "read the settings of the worker's environment: "+err.Error(), "")
	}
	if string(credentialsClass.Get(v)) == assumeRole {
		regional := conf.Copy()
		if r := stsRegion.Get(v); r != "" {
			regional.Region = r
		}
		conf.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(regional, func(o *sts.Options) {
			if u := stsEndpoint.Get(v); u != "" {
				o.BaseEndpoint = &u
			}
		}), roleARN.Get(v), func(o *stscreds.AssumeRoleOptions) {
			if o.RoleSessionName = roleSession.Get(v); o.RoleSessionName == "" {
				o.RoleSessionName = "millrace-" + cc.Connector
			}
			if id := roleExternal.Get(v); id != "" {
				o.ExternalID = &id
			}
		}))
	}
	return s3.NewFromConfig(conf, func(o *s3.Options) {
		o.UsePathStyle = pathStyle.Get(v)
		o.UseAccelerate = wanMode.Get(v)
		if u := storeURL.Get(v); u != "" {
			o.BaseEndpoint = &u
		}
	}), nil
}

// backoff is connectors.Backoff as the SDK asks for it.
type backoff struct{ first time.Duration }

func (b backoff) BackoffDelay(attempt int, _ error) (time.Duration, error) {
	return connectors.Backoff(b.first, maxBackoff, attempt), nil
}

// unlimited is a rate limiter of retries that does not limit them.
type unlimited struct{}

func (unlimited) GetToken(context.Context, uint) (func() error, error) {
	return func() error { return nil }, nil
}

func (unlimited) AddTokens(uint) error { return nil }

package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"millrace/connectors"
	"millrace/connectors/warehouse"
)

// The known failures.
var (
	unreachable = connectors.Reason{Code: "s3.unreachable", Retry: connectors.RetryHelps,
		Doc:    "The server does not answer, or the connection breaks before the answer.",
		Remedy: "start the server, or correct store.url or s3.region; the task goes on by itself"}
	unavailable = connectors.Reason{Code: "s3.unavailable", Retry: connectors.RetryHelps,
		Doc:    "The server answers that it is too busy or has a fault of its own.",
		Remedy: "look at the server; fewer or larger objects (flush.size) take load away. The task goes on by itself"}
	full = connectors.Reason{Code: "s3.full", Retry: connectors.RetryHelps,
		Doc:    "The server has no space left, or a quota is used up.",
		Remedy: "make room or raise the quota; the task goes on by itself"}
	unauthorized = connectors.Reason{Code: "s3.unauthorized",
		Doc:    "The server refuses the credentials, or they may not do what the sink needs.",
		Remedy: "correct aws.access.key.id and aws.secret.access.key, or grant s3:PutObject, s3:GetObject, s3:AbortMultipartUpload and s3:ListBucket on the bucket"}
	noBucket = connectors.Reason{Code: "s3.no_bucket",
		Doc:    "The bucket is not there.",
		Remedy: "create it, or correct s3.bucket.name and s3.region"}
	noCredentials = connectors.Reason{Code: "s3.no_credentials",
		Doc:    "No credentials were found.",
		Remedy: "set aws.access.key.id and aws.secret.access.key, or give the worker credentials in its environment"}
	foreign = connectors.Reason{Code: "s3.foreign_object", Retry: connectors.RetryNever,
		Doc:    "An object of the same name is there and holds other records: another connector writes there, or settings that decide where files end were changed.",
		Remedy: "move the object away or set another topics.dir; with the settings as they were the task finds its own objects again"}
	refused = connectors.Reason{Code: "s3.refused",
		Doc:    "The server refuses a request for a cause that the sink does not know.",
		Remedy: "see the server's words"}
)

var reasons = append([]*connectors.Reason{&unreachable, &unavailable, &full, &unauthorized, &noBucket, &noCredentials, &foreign, &refused}, warehouse.Reasons...)

// errSaysNothing is what is wrong with an answer that lacks the ETag of what was sent, or the id of the upload that was begun. Each of S3's has
// it, so that nothing is there for certain.
var errSaysNothing = errors.New("it does not name what was made")

// failure is the Failure of a request that did not succeed.
func failure(doing string, err error) error {
	var api smithy.APIError
	var resp *awshttp.ResponseError
	var dial net.Error
	var half *smithy.DeserializationError
	status := 0
	if errors.As(err, &resp) {
		status = resp.HTTPStatusCode()
	}
	fail := func(r *connectors.Reason, said string) error {
		return connectors.Failed(r, nil, fmt.Sprintf("%s: %s", doing, said), "")
	}
	switch {
	case errors.As(err, &api):
		said := api.ErrorCode()
		if m := api.ErrorMessage(); m != "" && m != said {
			said += ": " + m
		}
		switch api.ErrorCode() {
		case "NoSuchBucket":
			return fail(&noBucket, said)
		case "InsufficientStorage", "InsufficientCapacity", "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded":
			return fail(&full, said)
		case "AccessDenied", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "AccountProblem", "AllAccessDisabled":
			return fail(&unauthorized, said)
		case "SlowDown", "RequestTimeout", "RequestTimeTooSkewed", "ServiceUnavailable", "InternalError", "OperationAborted", "ConditionalRequestConflict", "BadDigest", "NoSuchUpload":
			return fail(&unavailable, said)
		}
		switch {
		case status == http.StatusInsufficientStorage:
			return fail(&full, said)
		case status == http.StatusForbidden || status == http.StatusUnauthorized:
			return fail(&unauthorized, said)
		case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusConflict || status == http.StatusRequestTimeout:
			return fail(&unavailable, said)
		case status == 0:
			return fail(&noCredentials, said)
		}
		return fail(&refused, fmt.Sprintf("%d %s", status, said))
	case status >= 500:
		return fail(&unavailable, fmt.Sprintf("answer %d", status))
	case errors.As(err, &half) || errors.Is(err, errSaysNothing):
		return fail(&unreachable, fmt.Sprintf("the answer breaks off or is none of S3's: %v", cause(err)))
	case errors.As(err, &dial) || errors.Is(err, context.DeadlineExceeded) || status == 0 && isTransport(err):
		return connectors.Failed(&unreachable, nil, fmt.Sprintf("%s: %v", doing, cause(err)), "")
	case status == 0:
		return fail(&noCredentials, cause(err).Error())
	}
	return fail(&refused, cause(err).Error())
}

// isTransport reports whether a request was sent and had no answer.
func isTransport(err error) bool {
	var sent *smithy.OperationError
	var send interface{ ConnectionError() bool }
	return errors.As(err, &sent) && (errors.As(err, &send) && send.ConnectionError() || errors.Is(err, net.ErrClosed))
}

// cause is the innermost error: what the SDK wraps around it names operations and attempts.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		if _, ok := err.(*net.OpError); ok {
			return err
		}
		err = inner
	}
}

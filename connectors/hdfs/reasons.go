package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/colinmarc/hdfs/v2"
	"github.com/jcmturner/gokrb5/v8/krberror"

	"millrace/connectors"
	"millrace/connectors/warehouse"
)

// The known failures.
var (
	unreachable = connectors.Reason{Code: "hdfs.unreachable", Retry: connectors.RetryHelps,
		Doc:    "No NameNode, no DataNode or no KDC answers, or a connection broke before the answer.",
		Remedy: "start HDFS, or correct hdfs.url; the task goes on by itself"}
	unavailable = connectors.Reason{Code: "hdfs.unavailable", Retry: connectors.RetryHelps,
		Doc:    "The NameNode cannot do it now: it is in safe mode, is no longer the active one, or finds too few DataNodes.",
		Remedy: "look at the cluster (hdfs dfsadmin -report); the task goes on by itself"}
	full = connectors.Reason{Code: "hdfs.full", Retry: connectors.RetryHelps,
		Doc:    "A quota is used up, or the DataNodes have no space.",
		Remedy: "raise the quota (hdfs dfsadmin -setSpaceQuota, -setQuota) or make room; the task goes on by itself"}
	unauthorized = connectors.Reason{Code: "hdfs.unauthorized",
		Doc:    "The user may not do what the sink needs, or the login failed.",
		Remedy: "give the user read, write and execute permission on topics.dir and logs.dir, or correct connect.hdfs.principal and connect.hdfs.keytab"}
	foreign = connectors.Reason{Code: "hdfs.foreign_file", Retry: connectors.RetryNever,
		Doc:    "A file of the name that the task wants is there already, and the task did not write it.",
		Remedy: "move that file away: its records are read again; or set another topics.dir"}
	takenOver = connectors.Reason{Code: "hdfs.taken_over", Retry: connectors.RetryHelps,
		Doc:    "Another task has taken over the partition: what this one has not committed is not its own any more.",
		Remedy: "if it happens again and again, two connectors share topics and logs.dir: give each its own topics.dir and logs.dir"}
	busyLog = connectors.Reason{Code: "hdfs.busy_log", Retry: connectors.RetryHelps,
		Doc:    "The log of Confluent's sink is open: that sink still runs, or it died less than a minute ago.",
		Remedy: "stop that sink; the log is free a minute after its end, and the task goes on by itself"}
	badLog = connectors.Reason{Code: "hdfs.bad_log", Retry: connectors.RetryNever,
		Doc:    "A log of Confluent's sink cannot be read: something else wrote it.",
		Remedy: "look at the file; where nothing in it is needed, remove it"}
	unfit = connectors.Reason{Code: "hdfs.unfit_folder", Retry: connectors.RetryNever,
		Doc:    "Files of a folder are erasure-coded or encrypted, which the sink cannot write.",
		Remedy: "take a folder without the policy (hdfs ec -setPolicy -replicate), or outside of the encryption zone, for topics.dir and logs.dir"}
	refused = connectors.Reason{Code: "hdfs.refused",
		Doc:    "The NameNode refuses a call for a cause that the sink does not know.",
		Remedy: "see its words"}
)

var reasons = append([]*connectors.Reason{&unreachable, &unavailable, &full, &unauthorized, &foreign, &takenOver, &busyLog, &badLog, &unfit, &refused}, warehouse.Reasons...)

// Java's exceptions, by the last part of their names.
var exceptions = map[string]*connectors.Reason{
	"DSQuotaExceededException": &full, "NSQuotaExceededException": &full, "QuotaByStorageTypeExceededException": &full,
	"SafeModeException": &unavailable, "RetriableException": &unavailable, "StandbyException": &unavailable, "ObserverRetryOnActiveException": &unavailable,
	"RecoveryInProgressException": &unavailable, "LeaseExpiredException": &unavailable, "NotReplicatedYetException": &unavailable, "RpcServerException": &unavailable,
	"CallQueueOverflowException": &unavailable, "RpcNoSuchProtocolException": &refused,
	"AccessControlException": &unauthorized, "AuthorizationException": &unauthorized, "AuthenticationException": &unauthorized,
	"UnknownCryptoProtocolVersionException": &unfit, "UnknownCipherSuiteException": &unfit,
}

// exceptionOf is the class of the exception that a server answered with, without its package, and the first line of its message.
func exceptionOf(err error) (class, said string) {
	var remote hdfs.Error
	if !errors.As(err, &remote) {
		return "", ""
	}
	class = remote.Exception()
	class = class[strings.LastIndexAny(class, ".$")+1:]
	said, _, _ = strings.Cut(remote.Message(), "\n")
	return class, said
}

// A localError has nothing to do with HDFS: what a file is to hold cannot be read here.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// known reports whether an error says already what it is.
func known(err error) bool {
	var local localError
	return connectors.FailureOf(err) != nil || connectors.RetryOf(err) != connectors.RetryUnknown || errors.As(err, &local) || errors.Is(err, context.Canceled)
}

// failure is the Failure of what did not succeed.
func failure(doing string, err error) error {
	if err == nil || known(err) {
		return err
	}
	fail := func(r *connectors.Reason, said string) error {
		return connectors.Failed(r, nil, doing+": "+said, "")
	}
	var login *loginError
	if errors.As(err, &login) {
		said, reason, remedy := doing+": log in by keytab: "+login.Error(), &unauthorized, ""
		var k krberror.Krberror
		if errors.As(login, &k) && k.RootCause == krberror.NetworkingError {
			reason, remedy = &unreachable, "start the realm's KDC, or correct krb5.conf; the task goes on by itself"
		}
		return connectors.Failed(reason, login, said, remedy)
	}
	class, said := exceptionOf(err)
	switch r := exceptions[class]; {
	case errors.Is(err, fs.ErrPermission):
		return fail(&unauthorized, err.Error())
	case class == "":
		if text := err.Error(); strings.Contains(text, "SASL handshake") && !strings.Contains(text, krberror.NetworkingError) { // no KDC for a ticket
			return fail(&unauthorized, err.Error())
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrInvalid) {
			return fail(&refused, err.Error())
		}
		return fail(&unreachable, err.Error())
	case r != nil:
		return fail(r, said)
	case class == "IOException" && (strings.Contains(said, "could only be written to") || strings.Contains(said, "could only be replicated to")):
		return fail(&unavailable, said)
	}
	return fail(&refused, fmt.Sprintf("%s: %s", class, said))
}

// broken reports whether a link is of no further use after err.
func broken(err error) bool {
	if err == nil || known(err) {
		return false
	}
	class, _ := exceptionOf(err)
	switch {
	case class == "StandbyException" || class == "ObserverRetryOnActiveException":
		return true
	case class != "" || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrInvalid):
		return false
	}
	return true
}

package peers

import (
	"testing"

	"millrace/deploy/peers/run"
)

// An S3Server is an S3 server on plain files, over plain HTTP, with path-style addresses.
type S3Server struct {
	// URL is its address, http://127.0.0.1:PORT.
	URL string
	// AccessKey, SecretKey and Region sign in; Bucket is there from the start, and shared.
	AccessKey, SecretKey, Region, Bucket string
}

// S3 is the S3 server that all tests of the run share.
func S3(t testing.TB) *S3Server {
	t.Helper()
	return &S3Server{"http://" + shared(t, "s3"), run.S3AccessKey, run.S3SecretKey, run.S3Region, run.S3Bucket}
}

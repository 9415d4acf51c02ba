// Package client speaks Connect's REST API: Millrace's, and that of the JVM original.
// It waits while the workers settle, tells what kind of failure an answer is, and can
// print a request as a curl command instead of sending it.
package client

// Package scram has what a server keeps of a user's password (RFC 5802): enough to check it, too little to sign in
// elsewhere with it. Two mechanisms are known, in Kafka's spelling and with its numbers.
package scram

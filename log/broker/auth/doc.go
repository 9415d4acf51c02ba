// Package auth decides who a client is: SASL PLAIN and SCRAM against the users of the catalogue. It knows mechanisms
// and their messages, not the requests that carry them.
//
// There is one set of users. A user who signs in with PLAIN is checked against the same SCRAM credential, so no
// password is kept anywhere. A name that no user has goes through the same exchange, with a salt and a number of
// iterations that stay the same for it, and fails at the same place: neither answers nor times tell which names exist.
package auth

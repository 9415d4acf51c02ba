// Package smttest runs transforms and predicates against cases that the original
// classes ran: the same configuration and record, and what came out.
package smttest

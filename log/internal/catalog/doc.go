// Package catalog knows which topics the embedded log has, their ids and configurations, the
// configurations of groups, the users who may sign in, the cluster's id and the blocks of producer
// ids that were handed out.
//
// All of it lives in memory and, as records, in the compacted partition __embedded_meta-0. Every
// change is durable before the call that makes it returns, and visible to others only then: durable
// first, answer second. A topic that is being made has its directories before its record, and one
// that is being deleted has its record marked before its directories go, so that a crash at any
// point leaves either the whole topic or none of it after the next start.
package catalog

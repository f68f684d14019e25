// Package chat defines the chat completion: the request, decoded and checked against the contract,
// and the parts of a reply.
//
// Parse turns a body into a Request, or returns a fault that names the field that is wrong. It knows
// nothing about accounts, models or upstreams; rules that need those are in admission and inference.
//
// Every call passes through here, so Parse reads the body once and keeps it. An upstream of the same
// dialect gets the caller's bytes with a Patch applied, not a new encoding of the decoded values:
// fields that we do not know survive, and nothing is encoded again. Every message that Parse can
// return stands in testdata/bad.txtar, beside the request that causes it.
package chat

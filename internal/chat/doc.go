// Package chat holds the words of a chat completion: the request, decoded and checked against the
// contract, and the pieces a reply is made of.
//
// Parse turns a body into a Request or into a fault that names the offending field. It knows nothing
// of accounts, models or upstreams; rules that need those stand in admission and inference.
//
// Every call passes through here, so a body is read once, by a scanner of our own, and kept: what an
// upstream of the same dialect gets is the caller's bytes with a Patch applied. Everything that Parse
// can say stands, with the request that provokes it, in testdata/bad.txtar.
package chat

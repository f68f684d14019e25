// Package chat defines the chat completion: the request, decoded and checked against the contract,
// and the parts of a reply.
//
// Parse turns a body into a Request, or returns a fault that names the field that is wrong. It knows
// nothing about accounts, models or upstreams; rules that need those are in admission and inference.
//
// Every call passes through here, so Parse reads the body once and keeps it. An upstream of the same
// dialect gets the caller's bytes with a Patch applied, not a new encoding of the decoded values:
// fields that we do not know survive, and nothing is encoded again. Every message that Parse can
// return is in testdata/bad.txtar, with the request that causes it.
//
// The doors of other dialects check their bodies with Check, read them through the Value that it returns,
// and fill a Builder. The Request that it makes is like one of Parse, but its messages become JSON only
// for an upstream that wants chat completions.
//
// The files follow the layers. scan.go, quoted.go, number.go and keys.go read JSON, and value.go what was
// read before; report.go writes the messages; parse.go, messages.go, calls.go, tools.go, mcp.go and
// format.go read the fields; build.go makes requests of other dialects;
// request.go, message.go and reply.go define the types; patch.go, passage.go and size.go serve the
// packages that use a Request.
package chat

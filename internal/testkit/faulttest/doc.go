// Package faulttest makes a running server suffer, and compares what its callers saw with what its books say.
//
// The tables in docs/faults.md and docs/faults-outside.md name every fault that is tried anywhere in the project, how
// it is made, what callers see and what the books show. Each row names its test. Most of them are beside the code that
// the fault is about; the tests of this package compare the tables with the code, and try what concerns the service as
// a whole: upstreams that lie, callers that misbehave, and a process that is killed, stopped and starved. The server is a process of its own,
// so its goroutines, descriptors and memory are its own, too. There is nothing here but tests.
package faulttest

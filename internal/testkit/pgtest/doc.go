// Package pgtest provides PostgreSQL servers and databases for tests.
//
// URL returns a fresh, empty database on the server that the test run has started. Own starts
// a server for a single test, which may stop and restart it. Only tests and the tools that run
// them import this package.
package pgtest

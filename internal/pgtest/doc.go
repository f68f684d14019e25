// Package pgtest gives tests a PostgreSQL to work with.
//
// URL hands out a fresh, empty database on the server that the test run has started; Own starts a
// server for one test alone, to be stopped and restarted under it. Only tests and the tools that
// run them import this package.
package pgtest

// Package redistest provides Redis servers for tests.
//
// URL returns a server to share: the one that the test run has started, or one for this test. Own starts a
// server for a single test, which may stop, kill and restart it. OwnTLS starts one that speaks TLS,
// OwnCluster a Redis Cluster. Only tests and the tools that run them import this package.
package redistest

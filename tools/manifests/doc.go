// Package manifests checks the Kubernetes manifests and the compose file in deploy/ against the types that
// Kubernetes, the Prometheus operator and compose publish. It has only tests, and is a module of its own
// because these types are large and nothing else needs them.
package manifests

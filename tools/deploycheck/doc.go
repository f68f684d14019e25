// Package deploycheck checks the files in deploy/ and docs/examples/ with the programs that read them:
// systemd-analyze, promtool, Prometheus, nginx, podman, and Sluice itself. It has only tests. Kubernetes manifests
// and the compose file are checked in tools/manifests, a module of its own, because the types that describe
// them are large.
package deploycheck

package app_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// scrape reads the node's own metrics.
func (n *node) scrape() string {
	n.t.Helper()
	resp, err := n.client.Get("http://" + n.MetricsAddr() + "/metrics")
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		n.t.Fatalf("GET /metrics = %d, %v", resp.StatusCode, err)
	}
	var own []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "sluice_") || strings.HasPrefix(line, "gen_ai_") || strings.HasPrefix(line, "go_sql_") {
			own = append(own, line)
		}
	}
	return strings.Join(own, "")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	n := newSite(t, "metrics_listen: 127.0.0.1:0\n").start(t)
	key := n.OwnerKey()
	for range 3 {
		n.get("/v1/models", key)
	}
	n.get("/v1/models", "")
	n.get("/v1/models/service/auto", key)
	n.get("/v1/models/sandbox/tiny", key)
	n.get("/nothing", "")
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	text := n.scrape()
	for _, want := range []string{
		`sluice_http_requests_total{method="GET",route="/v1/models",status="200"} 3`,
		`sluice_http_requests_total{method="GET",route="/v1/models/{id...}",status="200"} 2`,
		`sluice_http_requests_total{method="GET",route="none",status="401"} 1`,
		`sluice_http_requests_total{method="GET",route="none",status="404"} 1`,
		`sluice_http_requests_in_flight 0`,
		`sluice_http_request_duration_seconds_count{route="/v1/models"} 3`,
		`sluice_config_reloads_total{outcome="ok"} 1`,
		`sluice_accounts 1`,
		`sluice_request_bodies_bytes 0`,
		`sluice_upstream_targets{provider="sandbox",state="closed"} `,
		`sluice_upstream_targets{provider="sandbox",state="half_open"} 0`,
		`sluice_upstream_attempts_total{outcome="failed",provider="sandbox"} 0`,
		`sluice_upstream_calls_running{provider="sandbox"} 0`,
		`sluice_upstream_error_rate{provider="sandbox"} 0`,
		`sluice_upstream_first_content_seconds{provider="sandbox"} 0`,
		`sluice_build_info{goversion=`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s; they are\n%s", want, text)
		}
	}

	// Callers cannot make them grow.
	n.request("BREW", "/x", "", "")
	before := strings.Count(n.scrape(), "\n")
	for i := range 100 {
		n.get(fmt.Sprint("/made-up/", i), "")
		n.get(fmt.Sprint("/v1/made-up/", i), fmt.Sprint("service-", i))
		n.request(fmt.Sprint("BREW", i), "/x", "", "")
	}
	if text := n.scrape(); strings.Count(text, "\n") != before || strings.Contains(text, "made-up") {
		t.Errorf("%d series after made-up requests, want %d:\n%s", strings.Count(text, "\n"), before, text)
	}
	// They have an address of their own.
	if r := n.get("/metrics", ""); r.status != 404 {
		t.Errorf("GET /metrics at the API's address = %d, want 404", r.status)
	}
}

// The default address may be busy: nobody asked for it.
func TestBusyDefaultMetricsAddress(t *testing.T) {
	t.Parallel()
	const address = "127.0.0.1:9090"
	if l, err := net.Listen("tcp", address); err == nil {
		defer l.Close()
	} // else somebody else keeps it busy
	n := newSite(t, "metrics_listen: "+address+"\n").start(t)
	if n.MetricsAddr() != "" || !strings.Contains(n.log.String(), "metrics are off: the default address is busy") {
		t.Errorf("MetricsAddr() = %q, want none and a warning in the log:\n%s", n.MetricsAddr(), n.log)
	}
	if r := n.get("/healthz", ""); r.status != 200 {
		t.Errorf("GET /healthz = %d, want 200", r.status)
	}
}

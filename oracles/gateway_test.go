// Package oracles holds Sluice against programs that others wrote: official client libraries, and
// model servers where one runs on this machine.
//
// It is a module of its own because those programs are heavy and the product needs none of them. A
// test here starts a whole gateway in process and says what such a program makes of it; what is on the
// wire byte by byte is tested beside the code.
package oracles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/app/config"
	"sluice/internal/operate/admin"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/vendortest"
)

// The models that a gateway with a fake upstream offers beside the sandbox.
const (
	small    = "sandbox/small"
	tiny     = "sandbox/tiny" // takes no tools
	large    = "sandbox/large"
	reasoner = "sandbox/reasoner"
	faked    = "fake/model"    // served by the fake upstream
	ailing   = "fake/ailing"   // served by the fake upstream, too, as a provider of its own: what fails here disturbs nobody else
	stranded = "fake/stranded" // served by nobody: its provider cannot be reached
)

// gateway is a running Sluice of a test's own.
type gateway struct {
	url   string // where the API begins, /v1 included
	owner string // a key of an account that may do everything
	model string // that agents are told to use
	admin *admin.Client
	log   *logged
}

// startGateway runs a gateway until the test ends. No plan has limits: what is tested here is what
// clients make of replies, and they ask quickly. The configuration given is added to that.
func startGateway(t *testing.T, more string) *gateway {
	t.Helper()
	g, _ := startGatewayIn(t, t.TempDir(), more)
	return g
}

// startGatewayIn runs a gateway on a folder until stop is called, or the test ends. A second one there
// is the first one after a restart; who the owner is, it does not say again.
func startGatewayIn(t *testing.T, dir, more string) (g *gateway, stop func()) {
	t.Helper()
	file := filepath.Join(dir, "sluice.yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:0\nmetrics_listen: \"\"\ndrain_timeout: 5s\nshutdown_delay: 0s\ndata: %s\nplans:\n", filepath.Join(dir, "data"))
	for _, plan := range []string{"none", "free", "basic", "premium", "scale"} {
		if strings.HasPrefix(more, "  "+plan+": ") { // more goes on with the plans
			continue
		}
		text += fmt.Sprintf("  %s: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}\n", plan)
	}
	if err := errors.Join(os.WriteFile(file, []byte(text+more), 0o600), alltest.Prepare(filepath.Join(dir, "data"))); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: file})
	if err != nil {
		t.Fatalf("config.Load = %v", err)
	}
	log := &logged{}
	a, err := app.New(t.Context(), cfg, &app.Options{Log: slog.New(slog.NewJSONHandler(log, nil))})
	if err != nil {
		t.Fatalf("app.New = %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run = %v", err)
			}
		case <-time.After(patience):
			t.Errorf("the gateway did not stop within %v", patience)
		}
	})
	t.Cleanup(stop)
	g = &gateway{url: "http://" + a.Addr() + "/v1", owner: a.OwnerKey(), log: log}
	if g.admin, err = admin.Dial(t.Context(), cfg.Data); err != nil {
		t.Fatalf("admin.Dial = %v", err)
	}
	return g, stop
}

// startWithUpstream runs a gateway with a fake upstream behind it.
func startWithUpstream(t *testing.T) (*gateway, *upstream) {
	t.Helper()
	up := startUpstream(t)
	strict := httptest.NewServer(&vendortest.Vendor{})
	t.Cleanup(strict.Close)
	more := fmt.Sprintf(`providers:
  - {name: strict-chat, kind: openai, base_url: "%[7]s/v1", api_key: vendor-key, allow_image_urls: true}
  - {name: strict-responses, kind: azure, base_url: "%[7]s", api: responses, api_key: vendor-key, allow_image_urls: true}
  - {name: strict-messages, kind: anthropic, base_url: "%[7]s", api_key: vendor-key, allow_image_urls: true}
  - {name: fake, kind: openai, base_url: "%[1]s/v1", api_key: "%[2]s"}
  - {name: ailing, kind: openai, base_url: "%[1]s/v1", api_key: "%[2]s"}
  - {name: gone, kind: openai, base_url: "http://127.0.0.1:1/v1"}
models:
  - {id: %[3]s, provider: fake, upstream: %[4]s, plan: basic, context_length: 32768, max_output: 4096, tool_calling: true, reasoning: true}
  - {id: %[5]s, provider: ailing, upstream: %[4]s, plan: basic, context_length: 32768, max_output: 4096, quality: 1} # the router chooses the other one
  - {id: %[6]s, provider: gone, plan: free, context_length: 8192, max_output: 1024}
  - {id: strict/chat, provider: strict-chat, upstream: lab-model, %[8]s}
  - {id: strict/responses, provider: strict-responses, upstream: gpt-6-sol, %[8]s}
  - {id: strict/messages, provider: strict-messages, upstream: claude-sonnet-5-5, %[8]s}
`, up.url, upstreamKey, faked, upstreamModel, ailing, stranded, strict.URL, "plan: basic, context_length: 200000, max_output: 32000, tool_calling: true, reasoning: true, quality: 1")
	return startGateway(t, more), up
}

// account opens an account and returns its id and its key.
func (g *gateway) account(t *testing.T, name, plan string) (id, key string) {
	t.Helper()
	var made admin.CreatedAccount
	if err := g.admin.Call(t.Context(), "account.create", admin.NewAccount{Actor: "test", Email: name + "@example.com", Plan: plan}, &made); err != nil {
		t.Fatalf("Call(account.create) = %v", err)
	}
	return made.ID, made.MasterKey
}

// suspended opens an account that is suspended, and returns its key.
func (g *gateway) suspended(t *testing.T) (key string) {
	t.Helper()
	id, key := g.account(t, "suspended", "scale")
	var state admin.Account
	if err := g.admin.Call(t.Context(), "account.suspend", admin.Target{Actor: "test", Ref: id, Reason: "a test"}, &state); err != nil {
		t.Fatalf("Call(account.suspend) = %v", err)
	}
	return key
}

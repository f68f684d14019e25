package oracles

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"sluice/internal/operate/admin"
)

// catalogClient is the official client with a key, which asks once and keeps no connection.
func catalogClient(g *gateway, key string) openai.Client {
	return openai.NewClient(
		option.WithBaseURL(g.url), option.WithAPIKey(key), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}),
	)
}

// TestModels lists the catalog, page by page as the client does it, and fetches the router.
func TestModels(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "")
	client := catalogClient(g, g.owner)

	found := map[string]openai.Model{}
	pages := client.Models.ListAutoPaging(t.Context())
	for pages.Next() {
		found[pages.Current().ID] = pages.Current()
	}
	if err := pages.Err(); err != nil {
		t.Fatalf("ListAutoPaging = %v", err)
	}
	for _, id := range []string{"service/auto", small, tiny, large, "sandbox/heavy", reasoner} {
		m, ok := found[id]
		if !ok {
			t.Errorf("ListAutoPaging gave %d models without %s", len(found), id)
		} else if m.Created == 0 || m.OwnedBy == "" || m.Object != "model" {
			t.Errorf("ListAutoPaging gave %s, want created, owned_by and object", m.RawJSON())
		}
	}

	auto, err := client.Models.Get(t.Context(), "service/auto")
	if err != nil {
		t.Fatalf("Get(service/auto) = %v", err)
	}
	if auto.ID != "service/auto" || auto.OwnedBy != "service" || !strings.Contains(auto.RawJSON(), `"context_length":400000`) {
		t.Errorf("Get(service/auto) = %s, want the router", auto.RawJSON())
	}
}

// TestModelErrors has the refusals of the catalog surface as the client's error.
func TestModelErrors(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "")
	id, deactivated := g.account(t, "deactivated", "free")
	if err := g.admin.Call(t.Context(), "key.deactivate", admin.Target{Actor: "test", Ref: id, Reason: "a test"}, &admin.Account{}); err != nil {
		t.Fatalf("Call(key.deactivate) = %v", err)
	}
	for name, tt := range map[string]struct {
		key, model string
		status     int
		kind, says string
	}{
		"mistyped key":  {"service-wrong", "service/auto", 401, "authentication_error", "mistyped"},
		"another's key": {"sk-proj-1234", "service/auto", 401, "authentication_error", "begin with"},
		"deactivated":   {deactivated, "service/auto", 401, "key_deactivated", "support"},
		"suspended":     {g.suspended(t), "service/auto", 423, "account_suspended", "suspended"},
		"unknown model": {g.owner, "service/none", 404, "not_found_error", `"service/none"`},
	} {
		client := catalogClient(g, tt.key)
		_, err := client.Models.Get(t.Context(), tt.model)
		failed, ok := errors.AsType[*openai.Error](err)
		if !ok {
			t.Errorf("%s: Get(%s) = %v, want the client's own error", name, tt.model, err)
			continue
		}
		if failed.StatusCode != tt.status || failed.Type != tt.kind || !strings.Contains(failed.Message, tt.says) || failed.Response.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: Get(%s) = %d %s %q, want %d %s saying %q, and a request id", name, tt.model,
				failed.StatusCode, failed.Type, failed.Message, tt.status, tt.kind, tt.says)
		}
		if _, err := client.Models.List(t.Context()); (err == nil) != (tt.status == 404) {
			t.Errorf("%s: List = %v, want the same refusal wherever a key is needed", name, err)
		}
	}
}

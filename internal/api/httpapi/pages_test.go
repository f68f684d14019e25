package httpapi

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice/api"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/health"
	"sluice/internal/upstream/catalog"
)

func TestReadiness(t *testing.T) {
	t.Parallel()
	check := func(name string, found health.Finding) health.Check {
		return health.Check{Name: name, Look: func(context.Context) health.Finding { return found }}
	}
	fine, noted := check("database", health.Finding{}), check("accounts", health.Finding{Message: "a remark", Age: 7 * time.Second})
	broken := check("queue", health.Failure(errors.New("dial 10.0.0.1: canary")))
	for name, tt := range map[string]struct {
		checks   []health.Check
		draining bool
		status   int
		body     string
	}{
		"nothing to check": {nil, false, 200, `{"status":"ok","checks":[]}`},
		"fine":             {[]health.Check{fine, noted}, false, 200, `{"status":"ok","checks":[{"name":"database","ok":true,"age_seconds":0},{"name":"accounts","ok":true,"message":"a remark","age_seconds":7}]}`},
		"broken": {
			[]health.Check{broken, fine},
			false, 503,
			`{"status":"unavailable","checks":[{"name":"queue","ok":false,"message":"not available; the log says more","age_seconds":0},{"name":"database","ok":true,"age_seconds":0}]}`,
		},
		"stopping": {
			[]health.Check{fine},
			true, 503,
			`{"status":"unavailable","checks":[{"name":"database","ok":true,"age_seconds":0},{"name":"shutdown","ok":false,"message":"stopping; no new work","age_seconds":0}]}`,
		},
	} {
		w := newWorld(t, nil, func(a *API) {
			a.opts.Health = health.New(a.opts.Log, tt.checks...)
			if tt.draining {
				a.Drain()
			}
		})
		got := w.send(t, "GET", "/readyz", "")
		checkFixed(t, name, got)
		if got.status != tt.status || got.body != tt.body {
			t.Errorf("%s: GET /readyz = %d %s, want %d %s", name, got.status, got.body, tt.status, tt.body)
		}
		if health := w.send(t, "GET", "/healthz", ""); health.status != 200 {
			t.Errorf("%s: GET /healthz = %d, want 200 as long as the process runs", name, health.status)
		}
		warned := w.logged(t, "not ready")
		if (name == "broken") != (len(warned) == 1 && warned[0]["check"] == "queue" && warned[0]["error"] == "dial 10.0.0.1: canary") {
			t.Errorf("%s: warnings in the log = %v", name, warned)
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	reference := api.Describe(api.Defaults())
	start, _ := reference.Page("")
	chat, _ := reference.Page("createChatCompletion")
	w := newWorld(t, nil, nil)
	for _, tt := range []struct{ target, contentType, body string }{
		{"/healthz", "application/json", `{"status":"ok","version":"` + buildinfo.Version() + `"}`},
		{"/openapi.json", "application/json", string(api.OpenAPI())},
		{"/docs", "text/html; charset=utf-8", string(start.Body)},
		{"/docs/createChatCompletion", "text/html; charset=utf-8", string(chat.Body)},
		{"/docs/all", "text/html; charset=utf-8", string(api.Reference())},
	} {
		got := w.send(t, "GET", tt.target, "")
		checkFixed(t, tt.target, got)
		if got.status != 200 || got.header.Get("Content-Type") != tt.contentType || got.body != tt.body {
			t.Errorf("GET %s = %d %s with %d bytes, want 200 %s with %d", tt.target, got.status, got.header.Get("Content-Type"), len(got.body), tt.contentType, len(tt.body))
		}
		csp := got.header.Get("Content-Security-Policy")
		if strings.HasPrefix(tt.target, "/docs") && !strings.HasPrefix(csp, "default-src 'none';") {
			t.Errorf("GET %s: content security policy %q, want nothing loaded from elsewhere", tt.target, csp)
		}
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	models := w.api.settings.Load().Catalog
	router, _ := models.Lookup("service/auto")
	for _, tt := range []struct {
		target string
		want   []byte
	}{
		{"/v1/models", models.JSON(false)},
		{"/v1/models?other=1", models.JSON(false)},
		{"/v1/models?format=verbose", models.JSON(true)},
		{"/v1/models/verbose", models.JSON(true)},
		{"/v1/models/service/auto", router.JSON()},
		{"/v1/models/service%2Fauto", router.JSON()},
		{"/v1/models/service%2fauto", router.JSON()},
		{"/v1/models/%73ervice/auto", router.JSON()},
		{"http://elsewhere.example/v1/models/service/auto", router.JSON()},
	} {
		got := w.send(t, "GET", tt.target, w.good)
		checkFixed(t, tt.target, got)
		if got.status != 200 || got.body != string(tt.want) || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("GET %s = %d %s %s, want 200 application/json %s", tt.target, got.status, got.header.Get("Content-Type"), got.body, tt.want)
		}
	}

	other, err := catalog.New([]catalog.Model{catalog.Router("other")})
	if err != nil {
		t.Fatal(err)
	}
	w.api.Apply(Settings{Catalog: other})
	if got := w.send(t, "GET", "/v1/models", w.good); got.body != string(other.JSON(false)) {
		t.Errorf("GET /v1/models after Apply = %s, want the new catalog", got.body)
	}
	if got := w.send(t, "GET", "/v1/models/service/auto", w.good); got.status != 404 {
		t.Errorf("GET of a model that is gone = %d, want 404", got.status)
	}
}

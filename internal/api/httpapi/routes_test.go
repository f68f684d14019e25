package httpapi

import (
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"sluice/api"
	"sluice/internal/account/auth"
)

// The description lists exactly what is served.
func TestRoutesAreDescribed(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described[method+" "+path] = true
		}
	}
	served := map[string]bool{}
	for _, rt := range New(auth.New(auth.NewIndex(), "service", nil), nil, Settings{}, nil).routes() {
		served[rt.method+" "+strings.ReplaceAll(rt.pattern, "...}", "}")] = true
	}
	if diff := cmp.Diff(described, served); diff != "" {
		t.Errorf("routes and api/openapi.yaml differ: -described +served\n%s", diff)
	}
}

// Every route has a method and stands where its key is asked for.
func TestRoutesNeedAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	open := map[string]bool{"/healthz": true, "/api/hello": true, "/readyz": true, "/openapi.json": true, "/docs": true, "/docs/{page}": true, "/files/{file}": true, receiptKeysPath: true}
	for _, rt := range w.api.routes() {
		target := strings.NewReplacer("{id...}", "service/auto").Replace(rt.pattern)
		got := w.send(t, rt.method, target, "")
		if want := !open[rt.pattern]; (got.status == 401) != want {
			t.Errorf("%s %s without a key = %d, want a key needed: %t", rt.method, target, got.status, want)
		}
	}
}

package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/usage"
	"sluice/internal/upstream/catalog"
)

// checkMessagesError checks a reply that holds the error object of Anthropic's dialect.
func checkMessagesError(t *testing.T, name string, r reply, status int, kind, message string) {
	t.Helper()
	quoted, _ := json.Marshal(message) // a string always encodes
	id := r.header.Get("X-Request-Id")
	checkError(t, name, r, status, fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%s},"request_id":%q}`, kind, quoted, id))
	if got := r.header.Get("Request-Id"); got != id {
		t.Errorf("%s: request-id = %q, want %q", name, got, id)
	}
}

// The key of the Messages API is in a header of its own, or in Authorization.
func TestMessagesKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	const (
		twoKeys    = "The headers x-api-key and Authorization give more than one key. Send one of them."
		noKey      = "No API key was given. Send it as the header \"Authorization: Bearer service-…\"."
		notOurs    = "This is not a key of this service: keys begin with \"service-\"."
		malformed  = "The Authorization header must have the form \"Bearer service-…\"."
		needsModel = "The body is empty; send a JSON object with model, max_tokens and messages"
	)
	for _, tt := range []struct {
		name    string
		header  []string
		status  int
		kind    string
		message string
	}{
		{"x-api-key", []string{"X-Api-Key: " + w.good}, 400, "invalid_request_error", needsModel},
		{"bearer", []string{"Authorization: Bearer " + w.good}, 400, "invalid_request_error", needsModel},
		{"both the same", []string{"X-Api-Key: " + w.good, "Authorization: Bearer " + w.good}, 400, "invalid_request_error", needsModel},
		{"an empty one", []string{"X-Api-Key: ", "Authorization: Bearer " + w.good}, 400, "invalid_request_error", needsModel},
		{"none", nil, 401, "authentication_error", noKey},
		{"an empty one alone", []string{"X-Api-Key: "}, 401, "authentication_error", noKey},
		{"two different", []string{"X-Api-Key: " + w.good, "Authorization: Bearer " + w.suspended}, 401, "authentication_error", twoKeys},
		{"another scheme", []string{"X-Api-Key: " + w.good, "Authorization: Basic " + w.suspended}, 401, "authentication_error", twoKeys},
		{"two of one", []string{"X-Api-Key: " + w.good, "X-Api-Key: " + w.good}, 401, "authentication_error", twoKeys},
		{"another's", []string{"X-Api-Key: sk-ant-api03-x"}, 401, "authentication_error", notOurs},
		{"two in one", []string{"X-Api-Key: " + w.good + " " + w.good}, 401, "authentication_error", "This API key is mistyped or incomplete. Copy it again, whole."},
		{"malformed", []string{"Authorization: Bearer"}, 401, "authentication_error", malformed},
		{"suspended", []string{"X-Api-Key: " + w.suspended}, 423, "permission_error", saysSuspended},
		{"deactivated", []string{"X-Api-Key: " + w.deactivated}, 401, "authentication_error", saysDeactivated},
	} {
		checkMessagesError(t, tt.name, w.send(t, "POST", messagesPath, "", append(tt.header, "Content-Length: 0")...), tt.status, tt.kind, tt.message)
	}
	// Other paths take only Authorization.
	if got := w.send(t, "POST", chatPath, "", "X-Api-Key: "+w.good, "Anthropic-Version: 2023-06-01", "Content-Length: 0"); got.status != 401 {
		t.Errorf("POST %s with x-api-key = %d, want 401", chatPath, got.status)
	}
	// Claude Code looks for models without a version.
	if got := w.send(t, "GET", "/v1/models?limit=1000", "", "X-Api-Key: "+w.good); got.status != 200 || !strings.Contains(got.body, `"display_name":"`) || !strings.Contains(got.body, `"has_more":false`) {
		t.Errorf("GET /v1/models with x-api-key alone = %d %s, want a page", got.status, got.body)
	}
	if got := w.send(t, "HEAD", "/api/hello", ""); got.status != 200 {
		t.Errorf("HEAD /api/hello = %d, want 200", got.status)
	}
}

// Whatever goes wrong below /v1/messages is told in its dialect.
func TestMessagesErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	get := func(method, target string, header ...string) reply {
		return w.send(t, method, target, w.good, header...)
	}
	checkMessagesError(t, "404", get("POST", "/v1/messages/nothing"), 404, "not_found_error", "There is nothing at /v1/messages/nothing. The API begins at /v1; its reference is at /docs.")
	checkMessagesError(t, "405", get("GET", messagesPath), 405, "invalid_request_error", "GET is not possible on /v1/messages; use POST.")
	checkMessagesError(t, "413", get("POST", messagesPath, "Content-Length: 999999999"), 413, "request_too_large", "The request body is larger than 32 MiB, the maximum size.")
	checkMessagesError(t, "type", get("POST", messagesPath, "Content-Type: text/plain", "Content-Length: 0"), 400, "invalid_request_error", `Content-Type "text/plain" is not accepted; send application/json.`)
	if got := get("POST", "/v1/messagesx"); !strings.HasPrefix(got.body, `{"error"`) {
		t.Errorf("POST /v1/messagesx = %s, want our own error object", got.body)
	}
}

// Clients of Anthropic's API read the catalog in their own form, page by page.
func TestMessagesModels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	const version = "Anthropic-Version: 2023-06-01"
	read := func(query string) (page modelPage) {
		t.Helper()
		got := w.send(t, "GET", "/v1/models"+query, "", "X-Api-Key: "+w.good, version)
		if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != 200 || page.Data == nil {
			t.Fatalf("GET /v1/models%s = %d %s", query, got.status, got.body)
		}
		return page
	}
	var all []string
	for after, more := "", true; more; {
		page := read("?limit=2&after_id=" + after)
		for _, m := range page.Data {
			if m.Type != "model" || m.Name == "" || m.CreatedAt == "" {
				t.Errorf("model = %+v", m)
			}
			all = append(all, m.ID)
		}
		if len(page.Data) > 2 || len(page.Data) == 0 || *page.FirstID != page.Data[0].ID || *page.LastID != page.Data[len(page.Data)-1].ID {
			t.Fatalf("page after %q = %+v", after, page)
		}
		after, more = *page.LastID, page.More
	}
	var want []string
	for _, m := range w.api.settings.Load().Catalog.Models() {
		want = append(want, m.ID)
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("the pages list -want +got\n%s", diff)
	}
	last := read("?limit=1&before_id=" + want[2])
	if len(last.Data) != 1 || last.Data[0].ID != want[1] || !last.More {
		t.Errorf("the page before %s = %+v, want %s", want[2], last, want[1])
	}
	if page := read("?after_id=" + want[len(want)-1]); len(page.Data) != 0 || page.FirstID != nil || page.More {
		t.Errorf("the page after the last = %+v, want an empty one", page)
	}
	var one modelData
	got := w.send(t, "GET", "/v1/models/"+want[1], "", "X-Api-Key: "+w.good, version)
	if err := json.Unmarshal([]byte(got.body), &one); err != nil || one.ID != want[1] || one.Type != "model" {
		t.Errorf("GET /v1/models/%s = %d %s", want[1], got.status, got.body)
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?limit=x", "?after_id=nobody", "?before_id=nobody"} {
		if got := w.send(t, "GET", "/v1/models"+query, w.good, version); got.status != 400 || !strings.HasPrefix(got.body, `{"error"`) {
			t.Errorf("GET /v1/models%s = %d %s, want 400 and our own error object", query, got.status, got.body)
		}
	}
	// Without the header nothing has changed.
	if got := w.send(t, "GET", "/v1/models", w.good); !strings.HasPrefix(got.body, `{"object":"list"`) {
		t.Errorf("GET /v1/models = %.80s", got.body)
	}
}

// The headers of the dialect are passed on up to their bound, and refused above it. Others are not among them.
func TestDialectHeader(t *testing.T) {
	t.Parallel()
	const beta = "Anthropic-Beta"
	long := strings.Repeat("x", maxDialectHeader-2*len(beta))
	for _, tt := range []struct {
		header http.Header
		want   int
	}{
		{nil, 0},
		{http.Header{"X-Api-Key": {"k"}, "Authorization": {"Bearer k"}, "Accept": {"x"}}, 0},
		{http.Header{beta: {"a,b", "c"}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Tomorrow": {"x"}, "X-Api-Key": {"k"}}, 3},
		{http.Header{beta: {long, ""}}, 1},
		{http.Header{beta: {long, "y"}}, -1},
	} {
		got, err := dialectHeader(tt.header)
		if refused := tt.want < 0; (err != nil) != refused || !refused && len(got) != tt.want {
			t.Errorf("dialectHeader of %d headers = %d, %v, want %d", len(tt.header), len(got), err, tt.want)
		}
	}
}

// The name of a session is kept if it is a plain word within its bound.
func TestSessionOf(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", usage.MaxSession)
	for _, tt := range []struct{ name, value, want string }{
		{"X-Sluice-Session", "own", "own"},
		{"X-Claude-Code-Session-Id", "0197c2d4-1234", "0197c2d4-1234"},
		{"Session_id", "s", "s"},
		{"Conversation_id", "c", "c"},
		{"X-Other", "o", ""},
		{"Session_id", long, long},
		{"Session_id", long + "x", ""},
		{"Session_id", "two words", ""},
		{"Session_id", "", ""},
	} {
		if got := sessionOf(http.Header{tt.name: {tt.value}}); got != tt.want {
			t.Errorf("sessionOf(%s: %q) = %q, want %q", tt.name, tt.value, got, tt.want)
		}
	}
}

// A model says until when it lives.
func TestModelLifecycle(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	for shutdown, want := range map[time.Time]string{
		{}:                  `"lifecycle":"active","retires_at":null`,
		now.Add(time.Hour):  `"lifecycle":"deprecated","retires_at":"2026-11-18T13:00:00Z"`,
		now.Add(-time.Hour): `"lifecycle":"retired","retires_at":"2026-11-18T11:00:00Z"`,
	} {
		got, _ := json.Marshal(modelDataOf(&catalog.Model{ID: "m", Shutdown: shutdown}, now))
		if !strings.Contains(string(got), want) {
			t.Errorf("a model that ends at %v = %s, want %s", shutdown, got, want)
		}
	}
}

// The name of a model for people is short, or it is the id.
func TestDisplayName(t *testing.T) {
	t.Parallel()
	for description, want := range map[string]string{
		"": "lab/m", "Claude Opus 5": "Claude Opus 5", "Small and quick. For tests.": "Small and quick", "One\nline.": "One line", strings.Repeat("long ", 20): "lab/m",
	} {
		if got := displayName(&catalog.Model{ID: "lab/m", Description: description}); got != want {
			t.Errorf("displayName of %q = %q, want %q", description, got, want)
		}
	}
}

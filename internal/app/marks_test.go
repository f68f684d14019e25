package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/internal/operate/admin"
)

// sessionBody is a session as GET /v1/sessions shows it.
type sessionBody struct {
	Object string   `json:"object"`
	ID     string   `json:"id"`
	Calls  int      `json:"calls"`
	Failed int      `json:"failed"`
	Last   int64    `json:"last_at"`
	Models []string `json:"models"`
	Usage  struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
	Rate   *float64        `json:"cache_hit_rate"`
	Cost   *string         `json:"cost"`
	Budget json.RawMessage `json:"budget"`
}

// sorted returns texts in the order of the alphabet, as one.
func sorted(texts []string) string { return strings.Join(slices.Sorted(slices.Values(texts)), ", ") }

// marked makes a call with headers by name and value.
func (n *node) marked(key, path, body string, header ...string) reply {
	n.t.Helper()
	req := n.asking(key, path, body, header...)
	req.Header.Del("X-Sluice-Receipt")
	return n.answered(req)
}

// decode reads a reply with status 200.
func decode[T any](n *node, r reply) (out T) {
	n.t.Helper()
	if err := json.Unmarshal([]byte(r.body), &out); err != nil || r.status != http.StatusOK {
		n.t.Fatalf("= %d %s, %v", r.status, r.body, err)
	}
	return out
}

// What agents send of themselves makes their calls a session, through every door.
func TestSessionsOfAgents(t *testing.T) {
	t.Parallel()
	n := newSite(t, "plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\n").start(t)
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "scale"})
	sub := n.limited(made.ID, "sub", nil)
	const chat = `{"model":"sandbox/small","messages":[{"role":"user","content":"hi"}]%s}`
	plain := fmt.Sprintf(chat, "")
	for _, tt := range []struct {
		want, path, body, name, value string
	}{
		{"own", "/v1/chat/completions", plain, "x-sluice-session", "own"},
		{"claude", "/v1/messages", `{"model":"sandbox/small","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`, "X-Claude-Code-Session-Id", "claude"},
		{"from-user", "/v1/messages", `{"model":"sandbox/small","max_tokens":50,"metadata":{"user_id":"user_` + strings.Repeat("ab", 32) + `_account__session_from-user"},"messages":[{"role":"user","content":"hi"}]}`, "", ""},
		{"codex", "/v1/responses", `{"model":"sandbox/small","input":"hi"}`, "session_id", "codex"},
		{"codex", "/v1/responses", `{"model":"sandbox/small","input":"hi"}`, "session-id", "codex"},
		{"conversation", "/v1/responses", `{"model":"sandbox/small","input":"hi"}`, "conversation_id", "conversation"},
		{"cache-key", "/v1/responses", `{"model":"sandbox/small","input":"hi","prompt_cache_key":"cache-key"}`, "", ""},
		{"cache-key", "/v1/chat/completions", fmt.Sprintf(chat, `,"prompt_cache_key":"cache-key"`), "", ""},
		{"ses_open", "/v1/chat/completions", plain, "X-Session-Affinity", "ses_open"},
		{"ses_open", "/v1/messages", `{"model":"sandbox/small","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`, "X-Session-Id", "ses_open"},
		{"bob", "/v1/messages", `{"model":"sandbox/small","max_tokens":50,"metadata":{"user_id":"bob"},"messages":[{"role":"user","content":"hi"}]}`, "", ""},
		{"alice", "/v1/chat/completions", fmt.Sprintf(chat, `,"safety_identifier":"alice"`), "", ""},
		{"alice", "/v1/responses", `{"model":"sandbox/small","input":"hi","safety_identifier":"alice"}`, "", ""},
		{"own", "/v1/embeddings", `{"model":"sandbox/embed","input":"hi"}`, "x-sluice-session", "own"},
	} {
		var header []string
		if tt.name != "" {
			header = []string{tt.name, tt.value}
		}
		if r := n.marked(made.MasterKey, tt.path, tt.body, header...); r.status != 200 {
			t.Fatalf("%s %s = %d %s", tt.path, tt.name, r.status, r.body)
		}
	}
	n.marked(made.MasterKey, "/v1/chat/completions", fmt.Sprintf(chat, `,"user":"carol"`)) // the older field is no session
	if r := n.marked(sub.Key, "/v1/chat/completions", plain, "x-sluice-session", "subs"); r.status != 200 {
		t.Fatalf("a call of the sub-key = %d %s", r.status, r.body)
	}

	type list struct {
		Data []sessionBody `json:"data"`
		More bool          `json:"has_more"`
	}
	listed := func(l list) (ids []string) {
		for _, s := range l.Data {
			ids = append(ids, fmt.Sprint(s.ID, " ", s.Calls))
		}
		return ids
	}
	n.shelve()
	all := decode[list](n, n.get("/v1/sessions", made.MasterKey))
	want := []string{"subs 1", "own 2", "alice 2", "bob 1", "ses_open 2", "cache-key 2", "conversation 1", "codex 2", "from-user 1", "claude 1"}
	got := listed(all)
	if sorted(got) != sorted(want) || all.More {
		t.Errorf("GET /v1/sessions = %q, want %q", got, want)
	}
	if !slices.IsSortedFunc(all.Data, func(a, b sessionBody) int { return int(b.Last - a.Last) }) {
		t.Errorf("GET /v1/sessions = %+v, want the one with the last call first", all.Data)
	}
	want = got // calls that end in one millisecond have an order of their own
	page := decode[list](n, n.get("/v1/sessions?limit=2", made.MasterKey))
	next := decode[list](n, n.get("/v1/sessions?limit=8&after="+page.Data[1].ID, made.MasterKey))
	if got := append(listed(page), listed(next)...); !slices.Equal(got, want) || !page.More || next.More {
		t.Errorf("two pages = %q, want %q", got, want)
	}
	own := decode[sessionBody](n, n.get("/v1/sessions/own", made.MasterKey))
	if own.Object != "session" || own.Calls != 2 || own.Failed != 0 || !slices.Equal(own.Models, []string{"sandbox/small", "sandbox/embed"}) || own.Usage.Prompt == 0 || own.Usage.Total <= own.Usage.Prompt || own.Rate != nil || string(own.Budget) != "null" {
		t.Errorf("GET /v1/sessions/own = %+v", own)
	}
	// A sub-key sees what its own calls ended.
	if got := listed(decode[list](n, n.get("/v1/sessions", sub.Key))); !slices.Equal(got, []string{"subs 1"}) {
		t.Errorf("the sub-key sees %q, want its own", got)
	}
	for path, status := range map[string]int{"/v1/sessions/own": 404, "/v1/sessions/subs": 200, "/v1/sessions?after=own": 400, "/v1/sessions?limit=0": 400, "/v1/sessions/" + strings.Repeat("x", 65): 404} {
		if r := n.get(path, sub.Key); r.status != status {
			t.Errorf("GET %s with the sub-key = %d %s, want %d", path, r.status, r.body, status)
		}
	}
}

// Tags of keys, headers and bodies are counted, and a header that has none is refused.
func TestTags(t *testing.T) {
	t.Parallel()
	n := newSite(t, "plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\n").start(t)
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "scale"})
	tags := []string{"team=search"}
	sub := must[admin.NewKey](n, "key.create", admin.KeyOrder{Target: admin.Target{Actor: "t", Ref: made.ID, Name: "tagged"}, Tags: &tags})
	const chat, responses = `{"model":"sandbox/small","messages":[{"role":"user","content":"hi"}],"metadata":{"env":"prod","team":"ads"}}`, `{"model":"sandbox/small","input":"hi","metadata":{"env":"test"}}`
	for _, r := range []reply{
		n.marked(sub.Key, "/v1/chat/completions", chat, "x-sluice-tags", "job=1, team=other"),
		n.marked(made.MasterKey, "/v1/responses", responses),
		n.marked(made.MasterKey, "/v1/embeddings", `{"model":"sandbox/embed","input":"hi"}`, "x-sluice-tags", "job=1"),
	} {
		if r.status != 200 {
			t.Fatalf("a call with tags = %d %s", r.status, r.body)
		}
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/video/generations/jobs"} {
		body := chat
		if strings.Contains(path, "video") {
			body = `{"prompt":"a cat"}`
		}
		if r := n.marked(sub.Key, path, body, "x-sluice-tags", "no tag"); r.status != 400 || !strings.Contains(r.body, `"param":"x-sluice-tags"`) {
			t.Errorf("%s with a header without tags = %d %s, want a 400 at x-sluice-tags", path, r.status, r.body)
		}
	}
	type usage struct {
		Step int64  `json:"step_seconds"`
		By   string `json:"group_by"`
		Data []struct {
			Groups []struct {
				Group    string `json:"group"`
				Requests int    `json:"requests"`
				Prompt   int    `json:"prompt_tokens"`
			} `json:"groups"`
		} `json:"data"`
	}
	counted := func() (got []string) {
		n.shelve()
		u := decode[usage](n, n.get("/v1/usage?group_by=tag&range=7d", made.MasterKey))
		if u.Step != 86400 || u.By != "tag" || len(u.Data) < 7 {
			t.Errorf("usage by tag = %+v", u)
		}
		sums := map[string]int{}
		for _, d := range u.Data {
			for _, g := range d.Groups {
				sums[g.Group] += g.Requests
			}
		}
		for tag, n := range sums {
			got = append(got, fmt.Sprint(tag, " ", n))
		}
		slices.Sort(got)
		return got
	}
	if got, want := counted(), []string{"env=prod 1", "env=test 1", "job=1 2", "team=search 1"}; !slices.Equal(got, want) {
		t.Errorf("usage by tag = %q, want %q", got, want)
	}
	if r := n.get("/v1/usage?group_by=tag&model=x", made.MasterKey); r.status != 400 {
		t.Errorf("usage by tag of a model = %d %s, want 400", r.status, r.body)
	}
	// Limits without tags leave the tags as they are, and an empty list removes them.
	k := must[admin.Key](n, "key.set-limits", admin.KeyOrder{Target: admin.Target{Actor: "t", Ref: sub.ID}})
	if !slices.Equal(k.Tags, tags) {
		t.Errorf("tags after a change of limits = %q, want %q", k.Tags, tags)
	}
	none := []string{}
	must[admin.Key](n, "key.set-limits", admin.KeyOrder{Target: admin.Target{Actor: "t", Ref: sub.ID}, Tags: &none})
	if r := n.marked(sub.Key, "/v1/chat/completions", chat); r.status != 200 {
		t.Fatalf("= %d %s", r.status, r.body)
	}
	if got, want := counted(), []string{"env=prod 2", "env=test 1", "job=1 2", "team=ads 1", "team=search 1"}; !slices.Equal(got, want) {
		t.Errorf("usage by tag without the key's = %q, want %q", got, want)
	}
}

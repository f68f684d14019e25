package app_test

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/line/idempotency"
	"sluice/internal/operate/admin"
)

// A page that calls the API reads what a caller with a key reads, whatever goes wrong: before the call, in it, and in the
// middle of a stream.
func TestErrorsBehindASession(t *testing.T) {
	t.Parallel()
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	says := func(text string) string { return `"messages":[{"role":"user","content":"` + text + `"}]` }
	endless := `{"model":"sandbox/small",` + says("[[sandbox:delay=60s]]") + `}`
	const chat, messages, answers, videos = "/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/video/generations/jobs"
	tests := []struct {
		name   string
		state  string // of the account; "": a new one
		method string // POST unless given
		path   string
		header string
		body   string
		status int
		text   string // in the body
	}{
		{"no JSON", "", "", chat, "", `{`, 400, "invalid_request_error"},
		{"a field", "", "", chat, "", `{"model":"sandbox/small","messages":[{"role":"user","content":1}]}`, 400, `"param":"messages[0].content"`},
		{"an unknown model", "", "", chat, "", `{"model":"none",` + hi + `}`, 400, "none"},
		{"a content type", "", "", chat, "Content-Type: text/plain", `{}`, 400, "Content-Type"},
		{"a paid model", "", "", chat, "", `{"model":"sandbox/large",` + hi + `}`, 402, "payment_required"},
		{"a paid model, streamed", "", "", chat, "", `{"model":"sandbox/large","stream":true,` + hi + `}`, 402, "payment_required"},
		{"a plan too low", "free", "", chat, "", `{"model":"sandbox/large",` + hi + `}`, 403, "permission_error"},
		{"an unknown path", "", "GET", "/v1/nothing", "", "", 404, "There is nothing at /v1/nothing"},
		{"an unknown model to show", "", "GET", "/v1/models/none", "", "", 404, "not_found_error"},
		{"an unknown video", "", "GET", videos + "/none", "", "", 404, "not_found_error"},
		{"a wrong method", "", "PUT", chat, "", `{}`, 405, "method_not_allowed"},
		{"a used key", "", "", chat, "Idempotency-Key: used", `{"model":"sandbox/small",` + hi + `}`, 400, "Idempotency-Key"},
		{"a call that still runs", "", "", chat, "Idempotency-Key: running", endless, 409, "conflict"},
		{"deactivated", "deactivated", "", chat, "", `{"model":"sandbox/small",` + hi + `}`, 401, "key_deactivated"},
		{"suspended", "suspended", "", chat, "", `{"model":"sandbox/small",` + hi + `}`, 423, "account_suspended"},
		{"a rate", "poor", "", chat, "", `{"model":"sandbox/small",` + hi + `}`, 429, "rate_limit_error"},
		{"a rate, streamed", "poor", "", chat, "", `{"model":"sandbox/small","stream":true,` + hi + `}`, 429, "rate_limit_error"},
		{"a video without a prompt", "", "", videos, "", `{}`, 400, "prompt"},
		{"a video in OpenAI's form without a prompt", "", "", "/v1/videos", "", `{}`, 400, "prompt"},
		{"a video and a rate", "poor", "", videos, "", `{"prompt":"x"}`, 429, "rate_limit_error"},
		{"the upstream's 400", "", "", chat, "", `{"model":"sandbox/small",` + says("[[sandbox:error=400]]") + `}`, 400, "invalid_request_error"},
		{"the upstream's 500", "", "", chat, "", `{"model":"sandbox/small",` + says("[[sandbox:error=500]]") + `}`, 500, "server_error"},
		{"the upstream's 503", "", "", chat, "", `{"model":"sandbox/small",` + says("[[sandbox:error=503]]") + `}`, 503, "service_unavailable"},
		{"the upstream's 503, streamed", "", "", chat, "", `{"model":"sandbox/small","stream":true,` + says("[[sandbox:error=503]]") + `}`, 503, "service_unavailable"},
		{"a whole reply that breaks off", "", "", chat, "", `{"model":"sandbox/small",` + says("[[sandbox:cut=3]]") + `}`, 503, "service_unavailable"},
		{"a stream that breaks off", "", "", chat, "", `{"model":"sandbox/small","stream":true,` + says("[[sandbox:cut=3]]") + `}`, 200, `data: {"error":`},
		{"a stream that breaks off and can be resumed", "", "", chat, "X-Sluice-Resume: 1", `{"model":"sandbox/small","stream":true,` + says("[[sandbox:cut=3]]") + `}`, 200, `data: {"error":`},
		{"responses, 400", "", "", answers, "", `{"model":"sandbox/small"}`, 400, "input"},
		{"responses, 503", "", "", answers, "", `{"model":"sandbox/small","input":"[[sandbox:error=503]]"}`, 503, "service_unavailable"},
		{"a response that breaks off", "", "", answers, "", `{"model":"sandbox/small","stream":true,"input":"[[sandbox:cut=3]]"}`, 200, "response.failed"},
		{"messages, 400", "", "", messages, "", `{"model":"sandbox/small",` + hi + `}`, 400, `{"type":"error","error":{"type":"invalid_request_error"`},
		{"messages, 503", "", "", messages, "", `{"model":"sandbox/small","max_tokens":9,` + says("[[sandbox:error=503]]") + `}`, 503, `{"type":"error","error":{"type":"overloaded_error"`},
		{"a message that breaks off", "", "", messages, "", `{"model":"sandbox/small","max_tokens":99,"stream":true,` + says("[[sandbox:cut=3]]") + `}`, 200, "event: error"},
		{"embeddings, 400", "", "", "/v1/embeddings", "", `{"model":"sandbox/embed"}`, 400, "input"},
	}
	for _, lane := range []string{"debug", "off"} {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "http1_lane: "+lane+"\nplans: {none: {requests_per_minute: unlimited, tokens_per_minute: unlimited}, free: {requests_per_minute: unlimited, tokens_per_minute: unlimited}, basic: {requests_per_minute: 1}, premium: {monthly_units: 1}}\n")
			s.replies = &idempotency.Options{Wait: time.Millisecond}
			n := s.start(t)
			people := map[string]*person{}
			for _, state := range []string{"", "free", "deactivated", "suspended", "poor"} {
				p := n.join(cmp.Or(state, "new") + "@example.com")
				people[state] = p
				switch state {
				case "free":
					must[admin.Account](n, "account.set-plan", admin.Target{Actor: "t", Ref: p.email, Plan: "free"})
				case "poor":
					must[admin.Account](n, "account.set-plan", admin.Target{Actor: "t", Ref: p.email, Plan: "basic"})
					if r := n.request("POST", chat, p.key, `{"model":"sandbox/small",`+hi+`}`); r.status != 200 {
						t.Fatalf("the one call of a minute = %d %s", r.status, r.body)
					}
				case "suspended":
					must[admin.Account](n, "account.suspend", admin.Target{Actor: "t", Ref: p.email, Reason: "r"})
				case "deactivated":
					must[admin.Account](n, "account.set-plan", admin.Target{Actor: "t", Ref: p.email, Plan: "premium"})
					n.request("POST", chat, p.key, `{"model":"sandbox/small",`+hi+`}`)
					eventually(t, "the deactivation", func() bool { return n.get("/v1/models", p.key).status == 401 })
				}
			}
			send := func(p *person, session bool, method, path, header, body string) reply {
				t.Helper()
				if session {
					path = "/dashboard" + path
				}
				r, err := http.NewRequest(cmp.Or(method, "POST"), n.scheme+n.Addr()+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Sec-Fetch-Site", "same-origin")
				if name, value, ok := strings.Cut(header, ": "); ok {
					r.Header.Set(name, value)
				}
				client := p.client
				if !session {
					r.Header.Set("Authorization", "Bearer "+p.key)
					client = n.client
				}
				resp, err := client.Do(r)
				if err != nil {
					t.Errorf("%s %s = %v, want a reply", method, path, err)
					return reply{}
				}
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Errorf("%s %s: the reply breaks off: %v", method, path, err)
				}
				return reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
			}
			// A key that another body was sent with, and one whose call goes on.
			send(people[""], true, "", chat, "Idempotency-Key: used", `{"model":"sandbox/small",`+says("another")+`}`)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _, _ = n.idempotent(ctx, people[""].key, "running", endless) })
			defer running.Wait()
			defer cancel()
			eventually(t, "the running call", func() bool { return n.BodiesInFlight() == int64(len(endless)) })
			for _, tt := range tests {
				p := people[tt.state]
				key, page := send(p, false, tt.method, tt.path, tt.header, tt.body), send(p, true, tt.method, tt.path, tt.header, tt.body)
				for way, r := range map[string]reply{"with a key": key, "on a page": page} {
					if r.status != tt.status || !strings.Contains(r.body, tt.text) {
						t.Errorf("%s %s = %d %s, want %d with %s", tt.name, way, r.status, r.body, tt.status, tt.text)
					}
				}
				for name := range key.header {
					switch name {
					case "Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Vary", "Cache-Control": // pages have their own
						continue
					}
					if page.header.Get(name) == "" {
						t.Errorf("%s: a page gets no %s, which is %q with a key", tt.name, name, key.header.Get(name))
					}
				}
			}
			stranger := n.person()
			stranger.wants(stranger.post("/dashboard"+chat), "a call of nobody", 401, `"type":"authentication_error","code":401`)
		})
	}
}

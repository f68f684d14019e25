package inference_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/upstream/provider"
)

// Embed gives each input the same vector, and the figures of the script.
func (s *script) Embed(_ context.Context, call *provider.Call, req *embeddings.Request) (*embeddings.Vectors, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, *call)
	v := &embeddings.Vectors{Tokens: 30}
	for range req.Inputs {
		v.List = append(v.List, embeddings.Vector{Values: []float32{1}})
	}
	s.closed++
	return v, nil
}

// doors are the paths of the doors with a request for each.
var doors = map[string]string{
	"/v1/chat/completions": `"messages":[{"role":"user","content":"Hello"}]`,
	"/v1/responses":        `"input":"Hello"`,
	"/v1/messages":         `"max_tokens":50,"messages":[{"role":"user","content":"Hello"}]`,
	"/v1/embeddings":       `"input":"Hello"`,
}

// knock sends a request through a door.
func (w *wired) knock(t *testing.T, path, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.key)
	resp, err := w.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// lastUsage returns the last usage object that a reply has, in whatever place its dialect has it; nil if there is none.
func lastUsage(reply string) (found map[string]json.RawMessage) {
	for line := range strings.Lines(reply) {
		data := strings.TrimPrefix(line, "data: ")
		var all struct {
			Usage    map[string]json.RawMessage `json:"usage"`
			Response struct {
				Usage map[string]json.RawMessage `json:"usage"`
			} `json:"response"`
		}
		if json.Unmarshal([]byte(data), &all) != nil {
			continue
		}
		for _, u := range []map[string]json.RawMessage{all.Response.Usage, all.Usage} {
			if u != nil {
				found = u
			}
		}
	}
	return found
}

// The replies of upstreams: translated ones, and those whose bytes pass as they are. All have the usage of figures, and some
// say what the call costs the operator, which is none of the caller's business.
var (
	translated = []provider.Event{text("Hello"), stop, figures}
	wholeChat  = []provider.Event{{Kind: provider.Whole, Raw: []byte(`{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],` + theirUsage + `}`)}}
	chunksChat = []provider.Event{
		{Kind: provider.Chunk, Raw: []byte(`{"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}`)},
		{Kind: provider.Chunk, Raw: []byte(`{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)},
		{Kind: provider.Chunk, Raw: []byte(`{"id":"x","choices":[],` + theirUsage + `}`)},
	}
	wholeMessage = []provider.Event{native(text("Hello"), `{"type":"message","id":"x","model":"x","role":"assistant","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"cost":9,"output_tokens":70}}`), stop, figures}
	messageOf    = []provider.Event{
		native(text("Hello"), `{"type":"message_start","message":{"type":"message","id":"x","model":"x","role":"assistant","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}`),
		native(provider.Event{Kind: provider.Other}, `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":10,"output_tokens":70,"is_byok":false,"cost":9}}`),
		native(stop, `{"type":"message_stop"}`), figures,
	}
	silentMessage = []provider.Event{
		native(text("Hello"), `{"type":"message_start","message":{"type":"message","id":"x","model":"x","role":"assistant","content":[]}}`),
		native(stop, `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null}}`), figures,
	}
	responseOf = []provider.Event{
		native(text("Hello"), `{"type":"response.created","sequence_number":0,"response":{"id":"x","object":"response","status":"in_progress","model":"x","output":[],"usage":null}}`),
		native(stop, `{"type":"response.completed","sequence_number":1,"response":`+response+`}`), figures,
	}
)

const (
	response   = `{"id":"x","object":"response","status":"completed","model":"x","output":[],"usage":{"input_tokens":30,"cost":9,"cost_details":{},"output_tokens":70,"total_tokens":100}}`
	theirUsage = `"usage":{"prompt_tokens":30,"completion_tokens":70,"total_tokens":100,"prompt_tokens_details":{"cached_tokens":20},"completion_tokens_details":{"reasoning_tokens":40},"cost":9}`
)

// native returns an event with the upstream's own words.
func native(ev provider.Event, words string) provider.Event {
	ev.Native = []byte(words)
	return ev
}

// A reply that is not streamed has its cost in a header. Every door tells it in the usage if the caller asks for that, once:
// streamed or whole, translated or in the upstream's own words.
func TestCostIsTold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		path   string
		stream bool
		events []provider.Event
		want   string // in dollars: 30 tokens at 1 dollar a million and 70 at 2
	}{
		{"a completion", "/v1/chat/completions", false, translated, "0.00017"},
		{"a completion as it came", "/v1/chat/completions", false, wholeChat, "0.00017"},
		{"chunks", "/v1/chat/completions", true, translated, "0.00017"},
		{"chunks as they came", "/v1/chat/completions", true, chunksChat, "0.00017"},
		{"a response", "/v1/responses", false, translated, "0.00017"},
		{"a response as it came", "/v1/responses", false, []provider.Event{native(text("Hello"), response), stop, figures}, "0.00017"},
		{"a streamed response", "/v1/responses", true, translated, "0.00017"},
		{"a streamed response as it came", "/v1/responses", true, responseOf, "0.00017"},
		{"a message", "/v1/messages", false, translated, "0.00017"},
		{"a message as it came", "/v1/messages", false, wholeMessage, "0.00017"},
		{"a streamed message", "/v1/messages", true, translated, "0.00017"},
		{"a streamed message as it came", "/v1/messages", true, messageOf, "0.00017"},
		{"a streamed message without usage", "/v1/messages", true, silentMessage, "0.00017"},
		{"embeddings", "/v1/embeddings", false, nil, "0.00003"},
	} {
		for _, asked := range []bool{true, false} {
			for _, model := range []string{"real/one", "real/premium"} {
				t.Run(fmt.Sprintf("%s, asked %t, %s", tt.name, asked, model), func(t *testing.T) {
					t.Parallel()
					if tt.path == "/v1/embeddings" {
						model = strings.Replace(model, "real/", "vec/", 1)
					}
					w := wire(t, &script{events: tt.events}, account.Scale, nil)
					resp, reply := w.knock(t, tt.path, fmt.Sprintf(`{"model":%q,"stream":%t,"usage":{"include":%t},%s}`, model, tt.stream, asked, doors[tt.path]))
					priced := strings.HasSuffix(model, "/one")
					wantHeader, want := tt.want, tt.want
					if !priced {
						wantHeader, want = "", "null"
					}
					if tt.stream {
						wantHeader = ""
					}
					if got := resp.Header.Get("X-Sluice-Cost"); resp.StatusCode != 200 || got != wantHeader {
						t.Errorf("status %d and x-sluice-cost %q, want 200 and %q: %s", resp.StatusCode, got, wantHeader, reply)
					}
					if !asked {
						want = ""
					}
					usage := lastUsage(reply)
					if got := string(usage["cost"]); got != want || strings.Count(reply, `"cost`) != min(len(want), 1) {
						t.Errorf("usage.cost = %q, want %q, once: %s", got, want, reply)
					}
					if asked && len(usage) < 3 {
						t.Errorf("the usage has no figures beside the cost: %s", reply)
					}
					settled := w.settled(t)
					if charge := settled.Charge(); priced != (charge != nil) || priced && string(charge.AppendJSON(nil)) != tt.want {
						t.Errorf("settled at %v, want %s", charge, tt.want)
					}
				})
			}
		}
	}
}

// Customers are told the cost with the operator's markup, which is half as much again on this plan, and nothing else.
func TestCostWithMarkup(t *testing.T) {
	t.Parallel()
	for path, rest := range doors {
		if path == "/v1/embeddings" {
			continue // settled like the others
		}
		w := wire(t, &script{events: translated}, account.Premium, nil)
		resp, reply := w.knock(t, path, `{"model":"real/one","usage":{"include":true},`+rest+`}`)
		const want = "0.000255"
		if got := resp.Header.Get("X-Sluice-Cost"); got != want || string(lastUsage(reply)["cost"]) != want {
			t.Errorf("%s: x-sluice-cost %q, want %q as in the usage: %s", path, got, want, reply)
		}
		if _, reply := w.knock(t, "/v1/route", request("real/one", false, "")); !strings.Contains(reply, `"cost_min_usd":0.000012,"cost_max_usd":0.000312`) {
			t.Errorf("the route says %s, want the markup in its costs", reply)
		}
		if settled := w.settled(t); settled.Cost.String() != "0.00017" {
			t.Errorf("%s is settled at %s, want what the vendor asks for", path, settled.Cost)
		}
	}
}

// A reply that was cut has no usage. What it cost is in the header of an error that is not streamed.
func TestCostOfACutReply(t *testing.T) {
	t.Parallel()
	for path, rest := range doors {
		for _, stream := range []bool{true, false} {
			if path == "/v1/embeddings" {
				continue // they come whole or not at all
			}
			w := wire(t, &script{events: []provider.Event{text("Hello")}}, account.Scale, nil)
			resp, reply := w.knock(t, path, fmt.Sprintf(`{"model":"real/one","stream":%t,"usage":{"include":true},%s}`, stream, rest))
			settled := w.settled(t)
			want := ""
			if !stream {
				want = string(settled.Charge().AppendJSON(nil))
			}
			if got := resp.Header.Get("X-Sluice-Cost"); got != want || strings.Contains(reply, `"cost"`) || !strings.Contains(reply, "error") {
				t.Errorf("%s, stream %t: x-sluice-cost %q, want %q, and an error without a cost: %s", path, stream, got, want, reply)
			}
		}
	}
}

// What usage asks for must have the right shape, at every door. Upstreams do not get it.
func TestUsageOfARequest(t *testing.T) {
	t.Parallel()
	for path, rest := range doors {
		for usage, param := range map[string]string{
			`true`: "usage", `"include"`: "usage", `[]`: "usage", `{"include":"yes"}`: "usage.include", `{"include":1}`: "usage.include",
			`null`: "", `{}`: "", `{"include":null}`: "", `{"include":false,"more":1}`: "",
		} {
			model := "real/one"
			if path == "/v1/embeddings" {
				model = "vec/one"
			}
			w := wire(t, &script{events: translated}, account.Scale, nil)
			resp, reply := w.knock(t, path, fmt.Sprintf(`{"model":%q,"usage":%s,%s}`, model, usage, rest))
			switch {
			case param == "" && (resp.StatusCode != 200 || resp.Header.Get("X-Sluice-Dropped") != "" || strings.Contains(reply, `"cost"`)):
				t.Errorf("%s with usage %s: %d, dropped %q, want 200 without a cost: %s", path, usage, resp.StatusCode, resp.Header.Get("X-Sluice-Dropped"), reply)
			case param != "" && (resp.StatusCode != 400 || !strings.Contains(reply, param)):
				t.Errorf("%s with usage %s: %d %s, want a 400 that names %s", path, usage, resp.StatusCode, reply, param)
			}
			for _, call := range w.adapter.calls() {
				if call.Request == nil {
					continue
				}
				if sent := call.Request.AppendUpstream(nil, chat.Patch{}); strings.Contains(string(sent), `"usage"`) {
					t.Errorf("%s: the upstream gets %s", path, sent)
				}
			}
		}
	}
}

// Route says what a call costs at least and at most: its prompt has 8 tokens at 1 dollar a million, and its replies have at most
// max_tokens, or 100, at 2 dollars.
func TestCostsOfARoute(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ model, more, least, most string }{
		{"real/one", "", "0.000008", "0.000208"},
		{"real/one", `,"max_tokens":10`, "0.000008", "0.000028"},
		{"real/one", `,"max_tokens":5000`, "0.000008", "0.000208"},
		{"real/one", `,"max_tokens":10,"n":3`, "0.000008", "0.000068"},
		{"real/one", `,"service_tier":"auto"`, "0.000008", "0.000208"},
		{"real/one", `,"service_tier":"priority"`, "null", "null"},                            // its price is not known
		{"real/one", `,"web_search_options":{},"tools":[]`, "null", "null"},                   // nor that of a search
		{"real/premium", "", "null", "null"},                                                  // nor any
		{"service/auto", `,"reasoning_effort":"low","max_tokens":10`, "0.000008", "0.000028"}, // which chooses real/one
	} {
		w := wire(t, &script{}, account.Scale, nil)
		resp, reply := w.knock(t, "/v1/route", request(tt.model, false, tt.more))
		var got struct {
			Model      string
			Least      json.RawMessage `json:"cost_min_usd"`
			Most       json.RawMessage `json:"cost_max_usd"`
			Candidates []struct {
				Model string
				Least json.RawMessage `json:"cost_min_usd"`
				Most  json.RawMessage `json:"cost_max_usd"`
			}
		}
		if err := json.Unmarshal([]byte(reply), &got); err != nil || resp.StatusCode != 200 || string(got.Least) != tt.least || string(got.Most) != tt.most {
			t.Errorf("route of %s%s = %d, %s to %s, want %s to %s: %s", tt.model, tt.more, resp.StatusCode, got.Least, got.Most, tt.least, tt.most, reply)
		}
		for _, c := range got.Candidates {
			if c.Model == got.Model && (string(c.Least) != tt.least || string(c.Most) != tt.most) || c.Model == "real/premium" && string(c.Least) != "null" {
				t.Errorf("the candidate %s of %s costs %s to %s", c.Model, tt.model, c.Least, c.Most)
			}
		}
	}
}

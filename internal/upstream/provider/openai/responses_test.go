package openai_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/api/responses"
	"sluice/internal/kit/pulse"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/allowance"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/provider/providertest"
)

// TestResponsesSuite is the suite with an upstream that speaks the Responses API. It is not parallel: the suite looks for
// goroutines that are left behind.
func TestResponsesSuite(t *testing.T) { providertest.Run(t, responsesHarness()) }

// TestResponsesDoors plays what every door must be able to say. Requests in the upstream's own dialect are passed on.
func TestResponsesDoors(t *testing.T) {
	t.Parallel()
	providertest.Doors(t, responsesHarness())
}

func responsesHarness() providertest.Harness {
	return providertest.Harness{
		Unsupported: map[string]string{
			"stop sequence": "dropped, since the API has none",
		},
		Start: providertest.HTTP(
			providertest.Dialect{Stream: writeResponseEvents, Whole: writeResponse, Refuse: writeError, Read: readResponseRequest, Garbage: "data: {\"type\":\"response.out\n\n"},
			func(t *testing.T, baseURL string, p *pulse.Pulse) (provider.Adapter, func()) {
				t.Helper()
				a, err := openai.New(baseURL+"/v1", &openai.Options{APIKey: providertest.Key, API: openai.APIResponses, Pulse: p, Silence: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				return a, a.Close
			}),
	}
}

// responseScript writes events as OpenAI does: each text, thought and call is an item.
type responseScript struct {
	out  []string
	seq  int
	open string
	text string // of the open item
	done []any  // items
	call chat.ToolCall
}

func (s *responseScript) send(kind string, members object) {
	w := object{"type": kind, "sequence_number": s.seq}
	for k, v := range members {
		w[k] = v
	}
	s.seq++
	s.out = append(s.out, "event: "+kind+"\ndata: "+providertest.Encode(w)+"\n\n")
}

func (s *responseScript) item(status string) object {
	id := strconv.Itoa(len(s.done))
	switch s.open {
	case "text":
		return object{"id": "msg_up" + id, "type": "message", "status": status, "role": "assistant", "content": []any{object{"type": "output_text", "text": s.text, "annotations": []any{}, "logprobs": []any{}}}}
	case "reasoning":
		return object{"id": "rs_up" + id, "type": "reasoning", "summary": []any{object{"type": "summary_text", "text": s.text}}, "encrypted_content": "gAAAA"}
	}
	return object{"id": "fc_up" + id, "type": "function_call", "status": status, "call_id": s.call.ID, "name": s.call.Name, "arguments": s.text}
}

func (s *responseScript) begin(kind string) {
	if s.open == kind && kind != "call" {
		return
	}
	s.close()
	s.open, s.text = kind, ""
	s.send("response.output_item.added", object{"output_index": len(s.done), "item": s.item("in_progress")})
}

func (s *responseScript) close() {
	if s.open == "" {
		return
	}
	s.send("response.output_item.done", object{"output_index": len(s.done), "item": s.item("completed")})
	s.done = append(s.done, s.item("completed"))
	s.open = ""
}

func (s *responseScript) delta(kind, piece string) {
	s.text += piece
	s.send(kind, object{"output_index": len(s.done), "item_id": "x_up" + strconv.Itoa(len(s.done)), "content_index": 0, "delta": piece})
}

// write plays the events and returns the last Response object, or nil if there is no finish.
func (s *responseScript) write(events []provider.Event) (last object) {
	s.send("response.created", object{"response": responseBody("in_progress", nil, []any{}, nil)})
	var finish chat.Finish
	var usage any
	var calls []chat.ToolCall // the pieces of several calls come mixed, and an item at a time goes out
	for _, ev := range events {
		switch ev.Kind {
		case provider.Text:
			s.begin("text")
			s.delta("response.output_text.delta", ev.Text)
		case provider.Reasoning:
			s.begin("reasoning")
			s.delta("response.reasoning_summary_text.delta", ev.Text)
		case provider.ToolCall:
			if ev.Tool.Index == len(calls) {
				calls = append(calls, chat.ToolCall{ID: ev.Tool.ID, Name: ev.Tool.Name})
			}
			calls[ev.Tool.Index].Arguments += ev.Tool.Arguments
		case provider.Finish:
			finish = ev.Finish
		case provider.Usage:
			u := ev.Usage
			usage = object{"input_tokens": u.PromptTotal(), "input_tokens_details": object{"cached_tokens": u.Cached}, "output_tokens": u.CompletionTotal(), "output_tokens_details": object{"reasoning_tokens": u.Reasoning}, "total_tokens": u.Total()}
		}
	}
	for _, c := range calls {
		s.close()
		s.call = chat.ToolCall{ID: c.ID, Name: c.Name}
		s.begin("call")
		for _, piece := range []string{c.Arguments[:len(c.Arguments)/2], c.Arguments[len(c.Arguments)/2:]} {
			s.delta("response.function_call_arguments.delta", piece)
		}
	}
	if finish == "" {
		return nil
	}
	s.close()
	switch finish {
	case chat.FinishLength:
		return responseBody("incomplete", object{"reason": "max_output_tokens"}, s.done, usage)
	case chat.FinishContentFilter:
		return responseBody("incomplete", object{"reason": "content_filter"}, s.done, usage)
	}
	return responseBody("completed", nil, s.done, usage)
}

func responseBody(status string, details any, output []any, usage any) object {
	return object{"id": "resp_up", "object": "response", "created_at": 1, "status": status, "error": nil, "incomplete_details": details, "model": "gpt-up", "output": output, "store": false, "previous_response_id": nil, "usage": usage}
}

func writeResponseEvents(events []provider.Event) []string {
	s := &responseScript{}
	if last := s.write(events); last != nil {
		s.send("response."+last["status"].(string), object{"response": last})
	}
	return s.out
}

func writeResponse(events []provider.Event) string {
	if last := (&responseScript{}).write(events); last != nil {
		return providertest.Encode(last)
	}
	return providertest.Encode(responseBody("in_progress", nil, []any{}, nil))
}

// readResponseRequest understands a request with a decoder that is not ours.
func readResponseRequest(r *http.Request, body []byte) providertest.Asked {
	var w struct {
		Model        string
		Stream       bool
		Store        *bool
		Instructions string
		Input        []struct {
			Type, Role string
			Content    json.RawMessage
			Output     json.RawMessage
		}
		Tools  []struct{ Name string }
		Choice json.RawMessage `json:"tool_choice"`
		Text   struct{ Format struct{ Type string } }
		Max    int                     `json:"max_output_tokens"`
		Reason struct{ Effort string } `json:"reasoning"`
	}
	if err := json.Unmarshal(body, &w); err != nil || r.URL.Path != "/v1/responses" || w.Store == nil || *w.Store || len(w.Input) == 0 {
		panic("a request that no upstream would understand: " + r.URL.Path + " " + string(body))
	}
	a := providertest.Asked{
		Model: w.Model, Stream: w.Stream, Usage: true, JSON: w.Text.Format.Type == "json_object", MaxTokens: w.Max, Effort: w.Reason.Effort,
		Key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "),
	}
	if w.Instructions != "" {
		a.Texts = append(a.Texts, w.Instructions)
	}
	for _, item := range w.Input {
		text := ""
		if len(item.Content) == 0 {
			item.Content = item.Output
		}
		if json.Unmarshal(item.Content, &text) == nil {
			a.Texts = append(a.Texts, text)
			continue
		}
		var parts []struct {
			Type, Text string
			Image      string                        `json:"image_url"`
			Data       string                        `json:"file_data"`
			Audio      struct{ Data, Format string } `json:"input_audio"`
		}
		if len(item.Content) == 0 || json.Unmarshal(item.Content, &parts) != nil {
			continue
		}
		for _, p := range parts {
			if p.Type == "input_text" {
				a.Texts = append(a.Texts, p.Text)
			}
			if url := p.Image + p.Data; url != "" {
				a.Files = append(a.Files, strings.Replace(strings.TrimPrefix(url, "data:"), ";base64,", " ", 1))
			}
			if p.Audio.Data != "" {
				a.Files = append(a.Files, "audio/"+p.Audio.Format+" "+p.Audio.Data)
			}
		}
	}
	for _, tool := range w.Tools {
		a.Tools = append(a.Tools, tool.Name)
	}
	if len(w.Choice) > 0 && json.Unmarshal(w.Choice, &a.Choice) != nil {
		var named struct{ Name string }
		if err := json.Unmarshal(w.Choice, &named); err != nil {
			panic(err)
		}
		a.Choice = named.Name
	}
	return a
}

// native returns a request through the Responses door, and its call.
func native(t *testing.T, body string, past *responses.Past) (*responses.Request, *provider.Call) {
	t.Helper()
	req, err := responses.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	same, err := req.Compose(past)
	if err != nil {
		t.Fatal(err)
	}
	same.Original = req.Original(past)
	return req, &provider.Call{Request: same, Upstream: "gpt-up", MaxOutput: 100, ID: "r", Allow: allowance.New([]string{allowance.All})}
}

// respond sends a request through the Responses door to an upstream of the same dialect.
func respond(t *testing.T, body string, past *responses.Past, opts *responses.Options, reply string) (sent, got string, dropped []string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		sent = string(raw)
		if strings.HasPrefix(reply, "data:") || strings.HasPrefix(reply, "event:") {
			w.Header().Set("Content-Type", "text/event-stream")
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = io.WriteString(w, reply)
	}))
	defer server.Close()
	a, err := openai.New(server.URL+"/v1", &openai.Options{API: openai.APIResponses})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	req, call := native(t, body, past)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	in, err := a.Open(ctx, call)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	writer := responses.NewWriter(req, relay.Head{RequestID: "r1"}, opts)
	rec := httptest.NewRecorder()
	out := relay.New(rec, relay.Head{RequestID: "r1", Created: 1, Model: "lab/m"}, relay.Options{Stream: req.Stream, N: 1, Dialect: writer})
	defer out.Close()
	out.Relay(ctx, in)
	if err := out.Finish(); err != nil {
		t.Fatal(err)
	}
	return sent, rec.Body.String(), writer.Dropped(call.Dropped, call.Quoted)
}

// Between a caller and an upstream of the same dialect nothing is lost: neither fields nor tools nor items that nobody
// here knows.
func TestResponsesNative(t *testing.T) {
	t.Parallel()
	const asked = `{"model":"lab/m","input":[{"type":"message","id":"msg_1","role":"user","content":"Hi"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA"},{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"slc_AAAA"}],` +
		`"tools":[{"type":"web_search","search_context_size":"low"},{"type":"function","name":"f"}],"tool_choice":{"type":"web_search"},"new_field":{"a":[1, 2]},"max_output_tokens":5000,"store":true,"reasoning":{"effort":"low"}}`
	const reply = `{"id":"resp_up","object":"response","created_at":1,"status":"completed","error":null,"model":"gpt-up","output":[{"id":"ws_up","type":"web_search_call","status":"completed","action":{"type":"search","query":"x"}},` +
		`{"id":"msg_up","type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes.","annotations":[{"type":"url_citation","url":"https://a.example"}]}]}],"usage":{"input_tokens":3,"output_tokens":2},"store":false,"new":{"b":2}}`
	var kept string
	keep := &responses.Options{Keep: func(response []byte) bool {
		kept = string(response)
		return true
	}}
	sent, got, dropped := respond(t, asked, nil, keep, reply)
	const want = `{"model":"gpt-up","store":false,"input":[{"type":"message","role":"user","content":"Hi"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA"}],` +
		`"tools":[{"type":"web_search","search_context_size":"low"},{"type":"function","name":"f"}],"tool_choice":{"type":"web_search"},"new_field":{"a":[1,2]},"max_output_tokens":100,"reasoning":{"effort":"low"},"max_tool_calls":16,"include":["reasoning.encrypted_content"]}`
	if sent != want {
		t.Errorf("sent %s\nwant %s", sent, want)
	}
	const back = `{"id":"resp_r1","model":"lab/m","store":true,"previous_response_id":null,"object":"response","created_at":1,"status":"completed","error":null,"output":[{"id":"ws_r1_0","type":"web_search_call","status":"completed","action":{"type":"search","query":"x"}},` +
		`{"id":"msg_r1_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes.","annotations":[{"type":"url_citation","url":"https://a.example"}]}]}],"usage":{"input_tokens":3,"output_tokens":2,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens_details":{"reasoning_tokens":0}},"new":{"b":2}}`
	if got != back || kept != back {
		t.Errorf("got %s\nkept %s\nwant %s", got, kept, back)
	}
	if strings.Join(dropped, " ") != "max_output_tokens" {
		t.Errorf("dropped %q, want only the bound that was lowered", dropped)
	}

	// A stream, of which the last event comes last, with the items of an earlier response before the input.
	const events = `data: {"type":"response.created","sequence_number":7,"response":{"id":"resp_up","object":"response","status":"in_progress","model":"gpt-up","output":[]}}` + "\n\n" +
		`data: {"type":"response.output_item.added","sequence_number":8,"output_index":0,"item":{"id":"ws_up","type":"web_search_call"}}` + "\n\n" +
		`data: {"type":"response.web_search_call.searching","sequence_number":9,"output_index":0,"item_id":"ws_up"}` + "\n\n" +
		`data: {"type":"response.shell_call_output_content.delta","sequence_number":9,"output_index":0,"item_id":"ws_up","delta":{"stdout":"a"}}` + "\n\n" +
		`data: {"type":"response.output_text.delta","sequence_number":10,"output_index":1,"item_id":"msg_up","content_index":0,"delta":"Yes."}` + "\n\n" +
		`data: {"type":"response.completed","sequence_number":11,"response":` + reply + `}` + "\n\n"
	past := &responses.Past{Items: [][]byte{[]byte(`{"role":"user","content":"Before"}`), []byte(`{"type":"mcp_list_tools","id":"mcpl_1","server_label":"x","tools":[]}`)}}
	sent, got, _ = respond(t, `{"model":"lab/m","stream":true,"previous_response_id":"resp_0","input":"Now","store":false,"tools":[ ]}`, past, nil, events)
	if want := `{"model":"gpt-up","store":false,"input":[{"role":"user","content":"Before"},{"type":"message","role":"user","content":[{"type":"input_text","text":"Now"}]}],"stream":true}`; sent != want {
		t.Errorf("sent %s\nwant %s", sent, want)
	}
	wanted := `event: response.created` + "\n" + `data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_r1","model":"lab/m","store":false,"previous_response_id":"resp_0","object":"response","status":"in_progress","output":[]}}` + "\n\n" +
		`event: response.output_item.added` + "\n" + `data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"ws_r1_0","type":"web_search_call"}}` + "\n\n" +
		`event: response.web_search_call.searching` + "\n" + `data: {"type":"response.web_search_call.searching","sequence_number":2,"output_index":0,"item_id":"ws_r1_0"}` + "\n\n" +
		`event: response.shell_call_output_content.delta` + "\n" + `data: {"type":"response.shell_call_output_content.delta","sequence_number":3,"output_index":0,"item_id":"ws_r1_0","delta":{"stdout":"a"}}` + "\n\n" +
		`event: response.output_text.delta` + "\n" + `data: {"type":"response.output_text.delta","sequence_number":4,"output_index":1,"item_id":"msg_r1_1","content_index":0,"delta":"Yes."}` + "\n\n" +
		`event: response.completed` + "\n" + `data: {"type":"response.completed","sequence_number":5,"response":` + strings.NewReplacer(`"store":true,"previous_response_id":null`, `"store":false,"previous_response_id":"resp_0"`).Replace(back) + `}` + "\n\n"
	if got != wanted {
		t.Errorf("got %s\nwant %s", got, wanted)
	}
}

// Elsewhere built-in tools are named as dropped.
func TestResponsesDropped(t *testing.T) {
	t.Parallel()
	req, err := responses.Parse([]byte(`{"model":"m","input":"x","tools":[{"type":"web_search"},{"type":"web_search"},{"type":"code_interpreter","container":{"type":"auto"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	w := responses.NewWriter(req, relay.Head{}, nil)
	got := strings.Join(w.Dropped([]string{"max_tokens", "max_completion_tokens", "tools[].function.strict", "messages[].name", "reasoning_effort", "response_format"}, false), ", ")
	if want := "max_output_tokens, tools[].strict, input[].name, reasoning.effort, text.format, tools.web_search, tools.code_interpreter"; got != want {
		t.Errorf("Dropped = %s, want %s", got, want)
	}
}

// Items of types that nobody here knows may have members of any type. They are passed on, also in a stream.
func TestResponsesStrangeItems(t *testing.T) {
	t.Parallel()
	const item = `{"id":"ts_1","type":"tool_search_call","call_id":"c","arguments":{"a":1},"summary":"x","content":{}}`
	const reply = `data: {"type":"response.created","response":{"id":"r","object":"response","status":"in_progress"}}

data: {"type":"response.output_item.added","output_index":0,"item":` + item + `}

data: {"type":"response.output_item.done","output_index":0,"item":` + item + `}

data: {"type":"response.completed","response":{"id":"r","object":"response","status":"completed","output":[` + item + `],"usage":{"input_tokens":3,"output_tokens":2}}}

`
	_, got, _ := respond(t, `{"model":"lab/m","stream":true,"store":false,"input":"Hi"}`, nil, nil, reply)
	if !strings.Contains(got, `"arguments":{"a":1}`) || !strings.Contains(got, "response.completed") {
		t.Errorf("the caller got %s", got)
	}
}

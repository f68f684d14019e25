package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/internal/api/messages"
	"sluice/internal/api/responses"
	"sluice/internal/kit/fault"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// door is a dialect that callers speak.
type door struct {
	name string
	// parse reads a request and returns what writes its reply; nil: chat completions.
	parse func(body []byte) (*chat.Request, relay.Dialect, error)
	// whole and stream read a reply. A stream that tells of a fault has Err.
	whole  func(body []byte) (Reply, error)
	stream func(events []sent) (Reply, error)
}

var doors = []door{
	{
		name: "chat",
		parse: func(body []byte) (*chat.Request, relay.Dialect, error) {
			req, err := chat.Parse(body)
			return req, nil, err
		},
		whole: readCompletion, stream: readChunks,
	},
	{
		name: "responses",
		parse: func(body []byte) (*chat.Request, relay.Dialect, error) {
			req, err := responses.Parse(body)
			if err != nil {
				return nil, nil, err
			}
			same, err := req.Compose(nil)
			if err == nil {
				same.Original = req.Original(nil)
			}
			return same, responses.NewWriter(req, relay.Head{RequestID: "r"}, nil), err
		},
		whole: readResponse, stream: readResponseEvents,
	},
	{
		name: "messages",
		parse: func(body []byte) (*chat.Request, relay.Dialect, error) {
			req, err := messages.Parse(body)
			if err != nil {
				return nil, nil, err
			}
			return req.Chat, messages.NewWriter(req, "r"), nil
		},
		whole: readMessage, stream: readMessageEvents,
	},
}

// doorCase is one exchange, told in the words of each door. The members follow the model, the stream and the most tokens.
type doorCase struct {
	name    string // of the case in replies that says whether a harness can express it
	members map[string]string
	events  []provider.Event
	asked   Asked // of the upstream, beside its model and key; MaxTokens is 1000 unless it is set
	anyText bool  // the texts that reach the upstream are not compared
	sound   bool  // it has a sound, which a deaf upstream refuses
	// anyEffort says that the effort is not compared: for some it is a word, for others a share of the tokens.
	anyEffort bool
}

// picture is a PNG of one pixel.
const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="

// pdf is the beginning of a document.
const pdf = "JVBERi0xLjQKJeLjz9M="

const (
	chatHello      = `"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello?"}]`
	responsesHello = `"instructions":"Be brief.","input":"Hello?"`
	messagesHello  = `"system":"Be brief.","messages":[{"role":"user","content":"Hello?"}]`

	responsesTools = `,"tools":[
	{"type":"function","name":"get_weather","description":"Weather of a city","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}},
	{"type":"function","name":"get_time","parameters":{"type":"object","properties":{}}}]`
	messagesTools = `,"tools":[
	{"name":"get_weather","description":"Weather of a city","input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}},
	{"name":"get_time","input_schema":{"type":"object","properties":{}}}]`
)

// hello returns the members of a greeting with further members for each door.
func hello(inChat, inResponses, inMessages string) map[string]string {
	return map[string]string{"chat": chatHello + inChat, "responses": responsesHello + inResponses, "messages": messagesHello + inMessages}
}

var doorCases = []doorCase{
	{name: "text", members: hello("", "", ""), events: []provider.Event{text("Hel"), text("lo"), text(" wörld 👩‍🚀"), finish(chat.FinishStop), figures(9, 0, 3, 0)}},
	{name: "tool call in pieces", members: hello(tools, responsesTools, messagesTools), events: weather, asked: Asked{Tools: toolNames}},
	{
		name: "several tool calls", members: hello(tools, responsesTools, messagesTools), asked: Asked{Tools: toolNames},
		events: []provider.Event{
			call(0, "call_1", "get_weather", `{"city":"Paris"}`), call(1, "call_2", "get_weather", ""), call(1, "", "", `{"city":"Rome"}`), call(2, "call_3", "get_time", `{}`),
			finish(chat.FinishToolCalls), figures(9, 0, 25, 0),
		},
	},
	{name: "text before a tool call", members: hello(tools, responsesTools, messagesTools), asked: Asked{Tools: toolNames}, events: append([]provider.Event{text("Let me see.")}, weather...)},
	{
		name:    "forced tool",
		members: hello(tools+`,"tool_choice":{"type":"function","function":{"name":"get_weather"}}`, responsesTools+`,"tool_choice":{"type":"function","name":"get_weather"}`, messagesTools+`,"tool_choice":{"type":"tool","name":"get_weather"}`),
		asked:   Asked{Tools: toolNames, Choice: "get_weather"}, events: weather,
	},
	{
		name: "required tool", members: hello(tools+`,"tool_choice":"required"`, responsesTools+`,"tool_choice":"required"`, messagesTools+`,"tool_choice":{"type":"any"}`),
		asked: Asked{Tools: toolNames, Choice: "required"}, events: weather,
	},
	{ // the second turn of a conversation with tools
		name: "text", anyText: true, asked: Asked{Tools: toolNames},
		members: map[string]string{
			"chat": `"messages":[{"role":"user","content":"Weather in Paris?"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}]},
				{"role":"tool","tool_call_id":"call_1","content":"Sunny"}]` + tools,
			"responses": `"input":[{"role":"user","content":"Weather in Paris?"},{"type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{\"city\":\"Paris\"}"},
				{"type":"function_call_output","call_id":"call_1","output":"Sunny"}]` + responsesTools,
			"messages": `"messages":[{"role":"user","content":"Weather in Paris?"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"get_weather","input":{"city":"Paris"}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"Sunny"}]}]` + messagesTools,
		},
		events: []provider.Event{text("It is sunny."), finish(chat.FinishStop), figures(30, 0, 5, 0)},
	},
	{ // an image
		name: "text", anyText: true, asked: Asked{Files: []string{"image/png " + picture}},
		members: map[string]string{
			"chat":      `"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}}]}]`,
			"responses": `"input":[{"role":"user","content":[{"type":"input_text","text":"What is it?"},{"type":"input_image","image_url":"data:image/png;base64,` + picture + `"}]}]`,
			"messages":  `"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + picture + `"}}]}]`,
		},
		events: []provider.Event{text("A dot."), finish(chat.FinishStop), figures(30, 0, 5, 0)},
	},
	{ // a document
		name: "text", anyText: true, asked: Asked{Files: []string{"application/pdf " + pdf}},
		members: map[string]string{
			"chat":      `"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"file","file":{"filename":"a b.pdf","file_data":"data:application/pdf;base64,` + pdf + `"}}]}]`,
			"responses": `"input":[{"role":"user","content":[{"type":"input_text","text":"What is it?"},{"type":"input_file","filename":"a b.pdf","file_data":"data:application/pdf;base64,` + pdf + `"}]}]`,
			"messages":  `"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"document","title":"a b.pdf","source":{"type":"base64","media_type":"application/pdf","data":"` + pdf + `"}}]}]`,
		},
		events: []provider.Event{text("A page."), finish(chat.FinishStop), figures(30, 0, 5, 0)},
	},
	{ // the result of a tool that is a document
		name: "text", anyText: true, asked: Asked{Tools: toolNames, Files: []string{"application/pdf " + pdf}},
		members: map[string]string{
			"responses": `"input":[{"role":"user","content":"Read it."},{"type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{}"},
				{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,` + pdf + `"}]}]` + responsesTools,
			"messages": `"messages":[{"role":"user","content":"Read it."},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"get_weather","input":{}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"` + pdf + `"}}]}]}]` + messagesTools,
		},
		events: []provider.Event{text("A page."), finish(chat.FinishStop), figures(30, 0, 5, 0)},
	},
	{ // a sound; Messages has none
		name: "text", anyText: true, sound: true, asked: Asked{Files: []string{"audio/wav UklGRg=="}},
		members: map[string]string{
			"chat":      `"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]}]`,
			"responses": `"input":[{"role":"user","content":[{"type":"input_text","text":"What is it?"},{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]}]`,
		},
		events: []provider.Event{text("A beep."), finish(chat.FinishStop), figures(30, 0, 5, 0)},
	},
	{ // Messages has no such mode
		name: "JSON mode", asked: Asked{JSON: true}, events: []provider.Event{text(`{"answer":`), text(`42}`), finish(chat.FinishStop), figures(9, 0, 6, 0)},
		members: map[string]string{"chat": chatHello + `,"response_format":{"type":"json_object"}`, "responses": responsesHello + `,"text":{"format":{"type":"json_object"}}`},
	},
	{
		name: "reasoning", anyEffort: true, asked: Asked{MaxTokens: 4000}, events: []provider.Event{reasoning("First"), reasoning(" this."), text("Then that."), finish(chat.FinishStop), figures(9, 0, 3, 2)},
		members: hello(`,"reasoning_effort":"high"`, `,"reasoning":{"effort":"high","summary":"auto"}`, `,"thinking":{"type":"enabled","budget_tokens":2000}`),
	},
	{name: "max_tokens", members: hello("", "", ""), asked: Asked{MaxTokens: 2}, events: []provider.Event{text("one"), text(" two"), finish(chat.FinishLength), figures(9, 0, 2, 0)}},
	{name: "content filter", members: hello("", "", ""), events: []provider.Event{text("Well,"), finish(chat.FinishContentFilter), figures(9, 0, 2, 0)}},
}

// Doors plays exchanges through every door: what an upstream is asked and what the caller gets mean the same,
// whatever dialects the two speak. A reply that fails or breaks off does not look complete.
func Doors(t *testing.T, h Harness) {
	t.Helper()
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for i := range doorCases {
				c := &doorCases[i]
				if c.members[d.name] == "" || h.Unsupported[c.name] != "" {
					continue
				}
				if c.sound && h.Deaf {
					h.unheard(t, &d, c)
					continue
				}
				for _, stream := range []bool{true, false} {
					h.throughDoor(t, &d, c, stream)
				}
			}
			for _, then := range []Trouble{Cut, Reset, Closed, Garbage} {
				h.brokenThroughDoor(t, &d, then)
			}
			for _, status := range []int{400, 503} {
				for _, stream := range []bool{true, false} {
					h.refusedThroughDoor(t, &d, status, stream)
				}
			}
		})
	}
}

// exchange sends a request through the door, and returns what the caller got.
func (h *Harness) exchange(t *testing.T, d *door, s *Script, members string, most int, stream bool) (*httptest.ResponseRecorder, Asked, error) {
	t.Helper()
	limit := map[string]string{"responses": "max_output_tokens"}[d.name]
	if limit == "" {
		limit = "max_tokens"
	}
	req, dialect, err := d.parse(fmt.Appendf(nil, `{"model":"asked","stream":%t,%q:%d,%s}`, stream, limit, most, members))
	if err != nil {
		t.Fatalf("%s: the request is refused: %v\n%s", d.name, err, members)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := h.Start(t, s)
	defer p.Close()
	rec := httptest.NewRecorder()
	out := relay.New(rec, relay.Head{RequestID: "r", Created: 1, Model: "catalog/m"}, relay.Options{Stream: stream, N: 1, IncludeUsage: true, Dialect: dialect})
	defer out.Close()
	in, err := p.Adapter.Open(ctx, &provider.Call{Request: req, Upstream: p.Upstream, Thinks: true, ID: "r"})
	// An upstream that does not understand a request is never asked, and closes the connection.
	questions := make(chan Asked, 1)
	go func() { questions <- p.Asked() }()
	var asked Asked
	select {
	case asked = <-questions:
	case <-ctx.Done():
		t.Fatalf("%s: the upstream does not understand the request: %v\n%s", d.name, err, members)
	}
	if err != nil {
		out.Fail(ctx, err)
	} else {
		defer in.Close()
		out.Relay(ctx, in)
	}
	return rec, asked, out.Finish()
}

// throughDoor plays a case that ends well.
func (h *Harness) throughDoor(t *testing.T, d *door, c *doorCase, stream bool) {
	t.Helper()
	most := c.asked.MaxTokens
	if most == 0 {
		most = 1000
	}
	rec, asked, err := h.exchange(t, d, &Script{Events: c.events}, c.members[d.name], most, stream)
	if err != nil {
		t.Errorf("%s: stream %t: the reply fails: %v", c.name, stream, err)
		return
	}
	want := Expected(c.events)
	if u := want.Usage; u != nil {
		*u = chat.Usage{Prompt: u.PromptTotal(), Completion: u.CompletionTotal()}
	}
	got, err := d.read(rec, stream)
	if err != nil {
		t.Errorf("%s: stream %t: the reply cannot be read: %v\n%s", c.name, stream, err, rec.Body)
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: stream %t: -want +got\n%s\n%s", c.name, stream, diff, rec.Body)
	}
	wanted := c.asked
	wanted.Model, wanted.Key, wanted.MaxTokens, wanted.Stream, wanted.Texts = Model, Key, most, stream, []string{"Be brief.", "Hello?"}
	ignored := []string{"Usage"}
	if c.anyText {
		ignored = append(ignored, "Texts")
	}
	if c.anyEffort {
		ignored = append(ignored, "Effort")
	}
	wanted.Tools, asked.Tools = inAnyOrder(wanted.Tools), inAnyOrder(asked.Tools)
	if diff := cmp.Diff(wanted, asked, cmpopts.IgnoreFields(Asked{}, ignored...)); diff != "" {
		t.Errorf("%s: stream %t: the upstream was asked: -want +got\n%s", c.name, stream, diff)
	}
}

// unheard sends a sound to an upstream that takes none. It is refused, and the upstream is not asked.
func (h *Harness) unheard(t *testing.T, d *door, c *doorCase) {
	t.Helper()
	req, _, err := d.parse([]byte(`{"model":"asked",` + c.members[d.name] + `}`))
	if err != nil {
		t.Fatal(err)
	}
	p := h.Start(t, &Script{Events: c.events})
	defer p.Close()
	in, err := p.Adapter.Open(t.Context(), &provider.Call{Request: req, Upstream: p.Upstream, ID: "r"})
	if err == nil {
		in.Close()
	}
	if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.Invalid || f.Message != "This model does not know parts of type input_audio." || f.Param != "messages[0].content[1]" {
		t.Errorf("a sound: Open = %v, want it refused", err)
	}
}

// brokenThroughDoor plays a stream that breaks off.
func (h *Harness) brokenThroughDoor(t *testing.T, d *door, then Trouble) {
	t.Helper()
	rec, _, err := h.exchange(t, d, &Script{Events: some, Then: then}, hello("", "", "")[d.name], 1000, true)
	if !errors.Is(err, relay.ErrTold) {
		// The connection may have been reset before the adapter read the first event.
		if f, ok := errors.AsType[*fault.Fault](err); then != Reset || !ok || f.Kind != fault.Unavailable || rec.Body.Len() > 0 {
			t.Errorf("trouble %d: the stream ends with %v, want the caller told", then, err)
		}
		return
	}
	got, err := d.read(rec, true)
	if err != nil || got.Err == nil || got.Finish != "" {
		t.Errorf("trouble %d: the stream reads as %+v, %v, want one that failed\n%s", then, got, err, rec.Body)
	}
	if all := Expected(some).Text; !strings.HasPrefix(all, got.Text) {
		t.Errorf("trouble %d: the text is %q, want a beginning of %q", then, got.Text, all)
	}
}

// refusedThroughDoor plays an error status: nothing is sent, so that the caller gets a real one.
func (h *Harness) refusedThroughDoor(t *testing.T, d *door, status int, stream bool) {
	t.Helper()
	rec, _, err := h.exchange(t, d, &Script{Refusal: &Refusal{Status: status, Message: "It is wrong."}}, hello("", "", "")[d.name], 1000, stream)
	kind := map[int]fault.Kind{http.StatusBadRequest: fault.Invalid, http.StatusServiceUnavailable: fault.Unavailable}[status]
	if !fault.Is(err, kind) || rec.Body.Len() > 0 {
		t.Errorf("status %d, stream %t: %v after %q, want a fault of kind %v and nothing sent", status, stream, err, rec.Body, kind)
	}
}

// read reads a reply in the dialect of the door.
func (d *door) read(rec *httptest.ResponseRecorder, stream bool) (Reply, error) {
	if !stream {
		return d.whole(rec.Body.Bytes())
	}
	return d.stream(split(rec.Body.String()))
}

// sent is an event of a stream.
type sent struct{ name, data string }

// split returns the events of a stream. Comments are left out.
func split(stream string) (events []sent) {
	for block := range strings.SplitSeq(stream, "\n\n") {
		var ev sent
		for line := range strings.SplitSeq(block, "\n") {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				ev.name = name
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				ev.data = data
			}
		}
		if ev.data != "" {
			events = append(events, ev)
		}
	}
	return events
}

// errTold is the Err of a reply whose stream tells of a fault.
var errTold = errors.New("the stream tells of a fault")

// A completion, as far as it is compared.
type completion struct {
	Choices []struct {
		Message, Delta struct {
			Content   string
			Reasoning string `json:"reasoning_content"`
			ToolCalls []struct {
				Index    int
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Finish chat.Finish `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
	Error json.RawMessage
}

// add adds a completion or a chunk to a reply.
func (c *completion) add(r *Reply) {
	for _, choice := range c.Choices {
		for _, part := range []int{0, 1} {
			m := &choice.Message
			if part == 1 {
				m = &choice.Delta
			}
			r.Text += m.Content
			r.Reasoning += m.Reasoning
			for i, call := range m.ToolCalls {
				if part == 1 {
					i = call.Index
				}
				if i == len(r.Calls) {
					r.Calls = append(r.Calls, chat.ToolCall{ID: call.ID, Name: call.Function.Name})
				}
				r.Calls[i].Arguments += call.Function.Arguments
			}
		}
		if choice.Finish != "" {
			r.Finish = choice.Finish
		}
	}
	if c.Usage != nil {
		r.Usage = &chat.Usage{Prompt: c.Usage.Prompt, Completion: c.Usage.Completion}
	}
	if len(c.Error) > 0 {
		r.Err = errTold
	}
}

func readCompletion(body []byte) (r Reply, err error) {
	var c completion
	err = json.Unmarshal(body, &c)
	c.add(&r)
	return r, err
}

func readChunks(events []sent) (r Reply, err error) {
	done := false
	for _, ev := range events {
		if ev.data == "[DONE]" {
			done = true
			continue
		}
		var c completion
		if err := json.Unmarshal([]byte(ev.data), &c); err != nil {
			return r, err
		}
		c.add(&r)
	}
	if done == (r.Err != nil) {
		return r, fmt.Errorf("[DONE] is %t, and the fault is %v", done, r.Err)
	}
	return r, nil
}

// A Response object, as far as it is compared.
type response struct {
	Status     string
	Incomplete *struct{ Reason string } `json:"incomplete_details"`
	Output     []struct {
		Type      string
		CallID    string `json:"call_id"`
		Name      string
		Arguments string
		Content   []struct{ Type, Text string }
		Summary   []struct{ Text string }
	}
	Usage *struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
	}
}

// reply returns what the response means.
func (o *response) reply() (r Reply, err error) {
	for _, item := range o.Output {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				r.Text += part.Text
			}
		case "reasoning":
			for _, part := range item.Summary {
				r.Reasoning += part.Text
			}
		case "function_call":
			r.Calls = append(r.Calls, chat.ToolCall{ID: item.CallID, Name: item.Name, Arguments: item.Arguments})
		default:
			return r, fmt.Errorf("an item of type %q", item.Type)
		}
	}
	switch {
	case o.Status == "failed":
		r.Err = errTold
	case o.Status == "completed" && len(r.Calls) > 0:
		r.Finish = chat.FinishToolCalls
	case o.Status == "completed":
		r.Finish = chat.FinishStop
	case o.Status == "incomplete" && o.Incomplete != nil:
		r.Finish = map[string]chat.Finish{"max_output_tokens": chat.FinishLength, "content_filter": chat.FinishContentFilter}[o.Incomplete.Reason]
	default:
		return r, fmt.Errorf("the status is %q", o.Status)
	}
	if o.Usage != nil {
		r.Usage = &chat.Usage{Prompt: o.Usage.Input, Completion: o.Usage.Output}
	}
	return r, nil
}

func readResponse(body []byte) (Reply, error) {
	var o response
	if err := json.Unmarshal(body, &o); err != nil {
		return Reply{}, err
	}
	return o.reply()
}

// readResponseEvents reads the last event, which repeats everything, and compares it with the pieces before.
func readResponseEvents(events []sent) (Reply, error) {
	var said, thought strings.Builder
	arguments := map[string]string{}
	for i, ev := range events {
		var e struct {
			Type     string
			Sequence int    `json:"sequence_number"`
			ItemID   string `json:"item_id"`
			Delta    string
			Response response
		}
		if err := json.Unmarshal([]byte(ev.data), &e); err != nil {
			return Reply{}, err
		}
		if e.Type != ev.name || e.Sequence != i {
			return Reply{}, fmt.Errorf("event %d is %q with the name %q and the number %d", i, e.Type, ev.name, e.Sequence)
		}
		switch e.Type {
		case "response.output_text.delta":
			said.WriteString(e.Delta)
		case "response.reasoning_summary_text.delta":
			thought.WriteString(e.Delta)
		case "response.function_call_arguments.delta":
			arguments[e.ItemID] += e.Delta
		case "response.completed", "response.incomplete", "response.failed":
			r, err := e.Response.reply()
			var pieces, calls int
			for _, text := range arguments {
				pieces += len(text)
			}
			for _, call := range r.Calls {
				calls += len(call.Arguments)
			}
			if err == nil && (said.String() != r.Text || thought.String() != r.Reasoning || pieces != calls) {
				err = fmt.Errorf("the pieces %q, %q, %v are not those of %+v", said.String(), thought.String(), arguments, r)
			}
			if i != len(events)-1 {
				err = fmt.Errorf("%d events follow %s", len(events)-1-i, e.Type)
			}
			return r, err
		}
	}
	return Reply{}, errors.New("the stream has no last event")
}

// A message, as far as it is compared.
type message struct {
	Content []block
	Stop    string `json:"stop_reason"`
	Usage   tokens
}

type block struct {
	Type, Text, Thinking, ID, Name string
	Input                          json.RawMessage
}

type tokens struct {
	Input  int `json:"input_tokens"`
	Cached int `json:"cache_read_input_tokens"`
	Output int `json:"output_tokens"`
}

// reply returns what the message means.
func (m *message) reply() (r Reply, err error) {
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			r.Text += b.Text
		case "thinking":
			r.Reasoning += b.Thinking
		case "tool_use":
			r.Calls = append(r.Calls, chat.ToolCall{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
		default:
			return r, fmt.Errorf("a block of type %q", b.Type)
		}
	}
	r.Finish = map[string]chat.Finish{"end_turn": chat.FinishStop, "stop_sequence": chat.FinishStop, "tool_use": chat.FinishToolCalls, "max_tokens": chat.FinishLength, "refusal": chat.FinishContentFilter}[m.Stop]
	r.Usage = &chat.Usage{Prompt: m.Usage.Input + m.Usage.Cached, Completion: m.Usage.Output}
	return r, nil
}

func readMessage(body []byte) (Reply, error) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return Reply{}, err
	}
	return m.reply()
}

// readMessageEvents puts a message together.
func readMessageEvents(events []sent) (Reply, error) {
	var m message
	var arguments []string
	open, stopped, failed := -1, false, false
	for i, ev := range events {
		var e struct {
			Type    string
			Index   int
			Message message
			Block   block `json:"content_block"`
			Delta   struct {
				Text, Thinking string
				JSON           string `json:"partial_json"`
				Stop           string `json:"stop_reason"`
			}
			Usage *tokens
		}
		if err := json.Unmarshal([]byte(ev.data), &e); err != nil {
			return Reply{}, err
		}
		if e.Type != ev.name || stopped || failed || (i == 0) != (e.Type == "message_start") {
			return Reply{}, fmt.Errorf("event %d is %q with the name %q", i, e.Type, ev.name)
		}
		switch e.Type {
		case "message_start":
			m.Usage = e.Message.Usage
		case "content_block_start":
			if open >= 0 || e.Index != len(m.Content) {
				return Reply{}, fmt.Errorf("block %d begins, after %d blocks, while %d is open", e.Index, len(m.Content), open)
			}
			open = e.Index
			m.Content, arguments = append(m.Content, e.Block), append(arguments, "")
		case "content_block_delta":
			if e.Index != open {
				return Reply{}, fmt.Errorf("a piece of block %d while %d is open", e.Index, open)
			}
			m.Content[open].Text += e.Delta.Text
			m.Content[open].Thinking += e.Delta.Thinking
			arguments[open] += e.Delta.JSON
		case "content_block_stop":
			if m.Content[open].Type == "tool_use" {
				m.Content[open].Input = json.RawMessage(arguments[open])
			}
			open = -1
		case "message_delta":
			m.Stop = e.Delta.Stop
			if e.Usage != nil {
				if e.Usage.Input > 0 || e.Usage.Cached > 0 {
					m.Usage = *e.Usage
				}
				m.Usage.Output = e.Usage.Output
			}
		case "message_stop":
			stopped = true
		case "error":
			failed = true
		}
	}
	r, err := m.reply()
	switch {
	case err == nil && !stopped && !failed:
		err = errors.New("the stream has no last event")
	case failed:
		r.Err, r.Finish = errTold, ""
	}
	return r, err
}

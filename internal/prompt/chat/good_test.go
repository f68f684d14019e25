package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// goodBodies are requests as clients send them.
var goodBodies = []struct{ name, body string }{
	{"least", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
	{"small", smallBody},
	{"white space everywhere", " \r\n{ \"model\" : \"m\" ,\n\t\"messages\" : [ { \"role\" : \"user\" , \"content\" : \"hi\" } ] , \"stop\" : [ ] , \"x\" : { } }\n\n"},
	{"members in another order", `{"stream_options":{"include_usage":true},"tool_choice":{"function":{"name":"f"},"type":"function"},"tools":[{"function":{"parameters":{},"name":"f"},"type":"function"}],"stream":true,"messages":[{"content":"hi","role":"user"}],"model":"m"}`},
	{"escaped keys and words", `{"m\u006fdel":"\u006d","messages":[{"r\u006fle":"us\u0065r","content":"a\u0062c"}],"reasoning_effort":"l\u006fw"}`},
	{"every optional field null", `{"model":"m","messages":[{"role":"user","content":"hi","name":null,"tool_calls":null,"tool_call_id":null}],"stream":null,"stream_options":null,"max_tokens":null,"max_completion_tokens":null,"n":null,"temperature":null,"top_p":null,"frequency_penalty":null,"presence_penalty":null,"stop":null,"tools":null,"tool_choice":null,"response_format":null,"reasoning_effort":null,"seed":null,"user":null,"parallel_tool_calls":null}`},
	{"other fields of OpenAI clients", `{"model":"m","messages":[{"role":"user","content":"hi"}],"seed":7,"user":"u","logit_bias":{"50256":-100},"logprobs":true,"top_logprobs":2,"metadata":{"a":"b"},"store":false,"parallel_tool_calls":false,"service_tier":"auto","modalities":["text"],"prediction":{"type":"content","content":"x"},"audio":null,"web_search_options":{},"verbosity":"low","prompt_cache_key":"k","safety_identifier":"s","functions":null,"function_call":null}`},
	{"other fields of odd types", `{"model":"m","messages":[{"role":"user","content":"hi","name":5,"refusal":[1],"annotations":{},"audio":1,"reasoning_content":[]}],"seed":"seven","user":{"id":1},"logit_bias":[],"metadata":3,"store":"no","parallel_tool_calls":"maybe","service_tier":0,"modalities":null,"prediction":[]}`},
	{"stream_options without stream", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":"odd"}}`},
	{"stream_options of another type without stream", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":false,"stream_options":[1]}`},
	{"two bounds", `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":20,"max_completion_tokens":10}`},
	{"two bounds, the older one smaller", `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":20,"max_tokens":10}`},
	{"seventeen stops", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stop":["0","1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16"]}`},
	{"empty stops", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stop":["","a","","b\n"]}`},
	{"only empty stops", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stop":[""],"user":"u"}`},
	{"an empty stop", `{"stop":"","model":"m","messages":[{"role":"user","content":"hi"}]}`},
	{"files and sound", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}},{"file":{"file_id":"f"},"type":"file"}]},{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]}]}`},
	{"custom tools", `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{"name":"sh","input":"ls -l"}}]},{"role":"tool","tool_call_id":"c","content":"b"}],"tools":[{"type":"custom","custom":{"name":"sh","format":{"type":"text"}}}],"tool_choice":{"type":"custom","custom":{"name":"sh"}}}`},
	{"allowed tools", `{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}}}`},
	{"message of a client with legacy fields null", `{"model":"m","messages":[{"role":"assistant","content":"a","function_call":null,"tool_calls":null}]}`},
	{"no tools", `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[],"tool_choice":"auto"}`},
	{"choice none without tools", `{"model":"m","messages":[{"role":"user","content":"hi"}],"tool_choice":"none"}`},
	{"bounds", `{"model":"m","messages":[{"role":"user","content":""}],"temperature":2,"top_p":0.0,"frequency_penalty":-2.0,"presence_penalty":2e0,"n":128,"max_tokens":2147483647}`},
	{"integers by value", `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":1e1,"max_completion_tokens":10.0,"n":0.02E+2,"seed":-9223372036854775808}`},
	{"parts", `{"model":"m","messages":[{"role":"developer","content":[{"type":"text","text":"a"},{"text":"\n\u00e9","type":"text"}]},{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}},{"type":"text","text":""},{"image_url":{"detail":"low","url":"data:image/png;base64,iVBORw0KGgo="},"type":"image_url"},{"type":"image_url","image_url":{"url":"HTTP://example.com/b","detail":null}}]}]}`},
	{"tool exchange", `{"model":"m","messages":[{"role":"user","content":"weather?"},{"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}},{"index":1,"id":"call_2","function":{"name":"time","arguments":""}}]},{"role":"tool","tool_call_id":"call_2","content":"12:00"},{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"{\"celsius\":7}"}]},{"role":"assistant","content":"Cold.","tool_calls":[]},{"role":"user","content":"thanks"}]}`},
	{"same call id in two turns", `{"model":"m","messages":[{"role":"assistant","content":"","tool_calls":[{"id":"a","type":null,"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"2"}]}`},
	{"stop as a string", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stop":"\n\nEND"}`},
	{"text format", `{"model":"m","messages":[{"role":"user","content":"\b\f\/"}],"response_format":{"type":"text","extra":1},"tools":[{"type":"function","function":{"name":"f","extra":1}},{"type":"mcp","server_url":"https://example.com","require_approval":"never"}],"tool_choice":{"type":"function","function":{"name":"f","extra":1},"extra":1}}`},
	{"json object", `{"model":"m","messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_object","json_schema":5}}`},
	{"json schema", `{"model":"m","messages":[{"role":"user","content":"hi"}],"response_format":{"json_schema":{"name":"answer","description":"d","strict":true,"schema":{"type":"object"}},"type":"json_schema"}}`},
	{"MCP in OpenAI's form", `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"mcp","server_url":"https://example.com","authorization":"token",
		"allowed_tools":{"tool_names":["a"],"read_only":true},"require_approval":{"always":{"tool_names":["a"]},"never":{"read_only":true}}},
		{"type":"mcp","server_url":"https://example.com","authorization":null,"allowed_tools":{},"require_approval":{"always":null,"never":{"tool_names":null}}}]}`},
	{"MCP", `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"mcp","server_url":"https://example.com:8443/mcp?x=1","server_label":"My Server","allowed_tools":["a","b"],"require_approval":"always","headers":{"Authorization":"Bearer tök","x-trace":"a\tb","Content-Type":"application/json"},"server_description":"extra"},{"type":"mcp","server_url":"http://example.com","allowed_tools":[],"headers":null,"server_label":null,"require_approval":null},{"type":"function","function":{"name":"f.g-h_1","description":null,"parameters":null,"strict":null},"headers":5}],"tool_choice":{"type":"function","function":{"name":"search"}}}`},
	{"function member in an MCP tool", `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"function":5,"type":"mcp","server_url":"https://example.com"}]}`},
	{"deep schema", `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":` + strings.Repeat(`{"a":`, 100) + "{}" + strings.Repeat("}", 100) + `}}]}`},

	// Requests of official client libraries, as they send them.
	{"openai-python chat", `{"messages":[{"role":"system","content":"You are terse."},{"role":"user","content":"Say this is a test"}],"model":"service/auto","max_completion_tokens":64,"n":1,"stream":false,"temperature":0.2}`},
	{"resumable stream", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"resumable":true}}`},
	{"openai-node stream", `{"model":"service/auto","messages":[{"role":"user","content":"Say this is a test"}],"stream":true,"stream_options":{"include_usage":true}}`},
	{"openai-node runTools", `{"model":"service/auto","messages":[{"role":"user","content":"How is the weather?"},{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_x","type":"function","function":{"name":"getWeather","arguments":"{\"location\":\"Paris\"}","parsed_arguments":null}}]},{"role":"tool","tool_call_id":"call_x","content":"{\"temperature\":\"20C\"}"}],"tools":[{"type":"function","function":{"name":"getWeather","parameters":{"type":"object","properties":{"location":{"type":"string"}},"additionalProperties":false,"required":["location"]},"strict":true}}],"tool_choice":"auto","parallel_tool_calls":true,"stream":false}`},
	{"openai-python parse", `{"messages":[{"role":"user","content":"Solve 8x + 31 = 2"}],"model":"service/auto","response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"answer":{"title":"Answer","type":"string"}},"required":["answer"],"title":"Math","type":"object","additionalProperties":false},"name":"Math","strict":true}},"stream":false}`},
	{"AI SDK streamText", `{"model":"service/auto","max_tokens":512,"temperature":0,"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Hello"}],"stream":true,"stream_options":{"include_usage":true}}`},
	{"AI SDK tools", `{"model":"service/auto","messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"\"sunny\""}],"tools":[{"type":"function","function":{"name":"weather","description":"Get the weather","parameters":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{},"additionalProperties":false}}}],"tool_choice":{"type":"function","function":{"name":"weather"}}}`},
	{"AI SDK object", `{"model":"service/auto","messages":[{"role":"user","content":"List"}],"response_format":{"type":"json_schema","json_schema":{"schema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"},"name":"response"}},"reasoning_effort":"low"}`},
	{"LangChain", `{"model":"service/auto","stream":false,"temperature":0.1,"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"","tool_calls":[{"function":{"arguments":"{\"a\":1}","name":"add"},"id":"call_9","type":"function"}],"name":"agent"},{"content":"2","role":"tool","tool_call_id":"call_9","name":"add"}],"tools":[{"type":"function","function":{"name":"add","description":"adds","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}]}`},
}

func TestParseAccepts(t *testing.T) {
	t.Parallel()
	for _, tt := range goodBodies {
		r, err := Parse([]byte(tt.body))
		if err != nil {
			t.Errorf("%s: Parse = %v, want success", tt.name, err)
			continue
		}
		if err := legal(r.raw); err != nil {
			t.Errorf("%s: %v, want a legal body", tt.name, err)
		}
		checkDecoded(t, r)
	}
}

func ptr[T any](v T) *T { return &v }

// good parses the request with the given name.
func good(t testing.TB, name string) *Request {
	t.Helper()
	i := slices.IndexFunc(goodBodies, func(g struct{ name, body string }) bool { return g.name == name })
	r, err := Parse([]byte(goodBodies[i].body))
	if err != nil {
		t.Fatalf("%s: Parse = %v, want success", name, err)
	}
	return r
}

func TestParseFields(t *testing.T) {
	t.Parallel()
	f := &Function{Name: "f", Parameters: []byte("{}")}
	for _, tt := range []struct {
		name string
		want Request // without messages
	}{
		{"least", Request{Model: "m", N: 1}},
		{"small", Request{Model: "service/auto", N: 1, Stream: true, IncludeUsage: true, MaxTokens: 512, Temperature: ptr(0.7), TopP: ptr(1.0), User: "user-1234"}},
		{"members in another order", Request{
			Model: "m", N: 1, Stream: true, IncludeUsage: true, Tools: []Tool{{Function: f}}, ToolChoice: ToolChoice{ChoiceNamed, "f"},
		}},
		{"escaped keys and words", Request{Model: "m", N: 1, ReasoningEffort: EffortLow}},
		{"every optional field null", Request{Model: "m", N: 1}},
		{"other fields of OpenAI clients", Request{Model: "m", N: 1, Seed: ptr(int64(7)), User: "u", ParallelToolCalls: ptr(false), Runs: true, Reserved: true}},
		{"two bounds", Request{Model: "m", N: 1, MaxTokens: 10}},
		{"two bounds, the older one smaller", Request{Model: "m", N: 1, MaxTokens: 10}},
		{"empty stops", Request{Model: "m", N: 1, Stop: []string{"a", "b\n"}}},
		{"an empty stop", Request{Model: "m", N: 1}},
		{"custom tools", Request{Model: "m", N: 1, Tools: []Tool{{Custom: "sh"}}, ToolChoice: ToolChoice{ChoiceNamed, "sh"}}},
		{"allowed tools", Request{Model: "m", N: 1, Tools: []Tool{{Function: &Function{Name: "f"}}}, ToolChoice: ToolChoice{Mode: ChoiceAllowed}}},
		{"other fields of odd types", Request{Model: "m", N: 1, Reserved: true}},
		{"stream_options without stream", Request{Model: "m", N: 1}},
		{"resumable stream", Request{Model: "m", N: 1, Stream: true, Resumable: true}},
		{"no tools", Request{Model: "m", N: 1}},
		{"choice none without tools", Request{Model: "m", N: 1, ToolChoice: ToolChoice{Mode: ChoiceNone}}},
		{"bounds", Request{
			Model: "m", N: 128, MaxTokens: 2147483647,
			Temperature: ptr(2.0), TopP: ptr(0.0), FrequencyPenalty: ptr(-2.0), PresencePenalty: ptr(2.0),
		}},
		{"integers by value", Request{Model: "m", N: 2, MaxTokens: 10, Seed: ptr(int64(-9223372036854775808))}},
		{"stop as a string", Request{Model: "m", N: 1, Stop: []string{"\n\nEND"}}},
		{"json object", Request{Model: "m", N: 1, Format: Format{Kind: FormatJSONObject}}},
		{"json schema", Request{Model: "m", N: 1, Format: Format{FormatJSONSchema, "answer", []byte(`{"type":"object"}`), true}}},
		{"MCP", Request{Model: "m", N: 1, ToolChoice: ToolChoice{ChoiceNamed, "search"}, Tools: []Tool{
			{MCP: &MCP{
				ServerURL: "https://example.com:8443/mcp?x=1", ServerLabel: "My Server", Allowed: &ToolFilter{Names: []string{"a", "b"}}, Always: &ToolFilter{},
				Headers: map[string]string{"Authorization": "Bearer tök", "x-trace": "a\tb", "Content-Type": "application/json"},
			}},
			{MCP: &MCP{ServerURL: "http://example.com", Allowed: &ToolFilter{Names: []string{}}, Never: &ToolFilter{}}},
			{Function: &Function{Name: "f.g-h_1"}},
		}}},
		{"MCP in OpenAI's form", Request{Model: "m", N: 1, Tools: []Tool{
			{MCP: &MCP{
				ServerURL: "https://example.com", Headers: map[string]string{"Authorization": "Bearer token"},
				Allowed: &ToolFilter{[]string{"a"}, ptr(true)}, Always: &ToolFilter{Names: []string{"a"}}, Never: &ToolFilter{ReadOnly: ptr(true)},
			}},
			{MCP: &MCP{ServerURL: "https://example.com", Allowed: &ToolFilter{}, Never: &ToolFilter{}}},
		}}},
		{"AI SDK streamText", Request{Model: "service/auto", N: 1, MaxTokens: 512, Temperature: ptr(0.0), Stream: true, IncludeUsage: true}},
		{"openai-python chat", Request{Model: "service/auto", N: 1, MaxTokens: 64, Temperature: ptr(0.2)}},
	} {
		got := good(t, tt.name)
		diff := cmp.Diff(&tt.want, got, cmpopts.IgnoreUnexported(Request{}, Tool{}), cmpopts.IgnoreFields(Request{}, "Messages"))
		if diff != "" {
			t.Errorf("%s: Parse differs (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestNeedsApproval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ask  string
		want string // the tools that need an approval, of two that change something (a, b) and two that do not (c, d)
	}{
		{`"never"`, ""},
		{`null`, ""},
		{`"always"`, "abcd"},
		{`{}`, ""},
		{`{"always":{}}`, "abcd"},
		{`{"never":{}}`, ""},
		{`{"always":{"tool_names":["a","c"]}}`, "ac"},
		{`{"never":{"tool_names":["a","c"]}}`, "bd"},
		{`{"never":{"tool_names":[]}}`, "abcd"},
		{`{"never":{"read_only":true}}`, "ab"},
		{`{"always":{"read_only":false}}`, "ab"},
		{`{"always":{"tool_names":["a","c"],"read_only":true}}`, "c"},
		{`{"always":{"tool_names":["c"]},"never":{"read_only":true}}`, "abc"},
	} {
		r, err := Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"mcp","server_url":"https://example.com","require_approval":` + tt.ask + `}]}`))
		if err != nil {
			t.Errorf("require_approval %s: %v", tt.ask, err)
			continue
		}
		got := ""
		for _, name := range []string{"a", "b", "c", "d"} {
			if r.Tools[0].MCP.NeedsApproval(name, name >= "c") {
				got += name
			}
		}
		if got != tt.want {
			t.Errorf("require_approval %s: %q need an approval, want %q", tt.ask, got, tt.want)
		}
	}
}

// made returns calls with their arguments unescaped.
func made(past []PastCall) (calls []ToolCall) {
	for i := range past {
		c := &past[i]
		calls = append(calls, ToolCall{c.ID, c.Name, c.Arguments(), c.Custom})
	}
	return calls
}

func TestParseMessages(t *testing.T) {
	t.Parallel()
	r := good(t, "tool exchange")
	calls := []ToolCall{{ID: "call_1", Name: "weather", Arguments: `{"city":"Bern"}`}, {ID: "call_2", Name: "time"}}
	if diff := cmp.Diff(calls, made(r.Messages[1].ToolCalls)); diff != "" {
		t.Errorf("tool calls differ (-want +got):\n%s", diff)
	}
	if got := r.Messages[2].ToolCallID; got != "call_2" {
		t.Errorf("ToolCallID = %q, want %q", got, "call_2")
	}
	if got, want := string(r.Messages[5].Raw()), `{"role":"user","content":"thanks"}`; got != want {
		t.Errorf("Message.Raw = %s, want %s", got, want)
	}
	if got := good(t, "LangChain").Messages[3].Name; got != "add" {
		t.Errorf("Name = %q, want %q", got, "add")
	}

	r = good(t, "parts")
	if r.Messages[0].Role != RoleSystem {
		t.Errorf("role of developer = %d, want %d", r.Messages[0].Role, RoleSystem)
	}
	if got, want := r.Messages[0].Content.Text(), "a\n\né"; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
	var got []string
	for _, p := range r.Messages[1].Content.Parts() {
		got = append(got, fmt.Sprintf("%t %q %q %q", p.IsImage(), p.Text(), p.ImageURL(), p.Detail))
	}
	want := []string{
		`true "" "https://example.com/a.png" ""`,
		`false "" "" ""`,
		`true "" "data:image/png;base64,iVBORw0KGgo=" "low"`,
		`true "" "HTTP://example.com/b" ""`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parts differ (-want +got):\n%s", diff)
	}
	if r.Images() != 3 {
		t.Errorf("Images = %d, want 3", r.Images())
	}

	if parts := good(t, "least").Messages[0].Content.Parts(); len(parts) != 1 || parts[0].Text() != "hi" || parts[0].IsImage() {
		t.Errorf("Parts of a text = %v, want one text part", parts)
	}
	if got := Text("a \"b\"\n\x01é").Text(); got != "a \"b\"\n\x01é" {
		t.Errorf("Text(…).Text() = %q, want the same text", got)
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Foreign{
		"least":           {},
		"parts":           {},
		"files and sound": {"messages[0].content[1]", "parts of type input_audio", ""},
		"custom tools":    {"messages[1].tool_calls[0]", "calls of custom tools", ""},
		"allowed tools":   {"tool_choice", "a tool_choice of type allowed_tools", ""},
	} {
		if got := good(t, name).Foreign(); got != want {
			t.Errorf("%s: Foreign = %+v, want %+v", name, got, want)
		}
	}
	r := good(t, "files and sound")
	if got, want := r.ForeignBesideFiles(), (Foreign{}); got != want {
		t.Errorf("ForeignBesideFiles = %+v, want %+v", got, want)
	}
	if r.Images() != 0 || r.Attachments() != 2 || r.Messages[0].Content.Text() != "a" || r.Messages[1].Content.Text() != "No." {
		t.Errorf("Images, Attachments, Texts = %d, %d, %q, %q, want 0, 2, a, No.", r.Images(), r.Attachments(), r.Messages[0].Content.Text(), r.Messages[1].Content.Text())
	}
}

func TestUnread(t *testing.T) {
	t.Parallel()
	var got []string
	for name, value := range good(t, "other fields of OpenAI clients").Unread() {
		got = append(got, name+"="+string(value))
	}
	want := []string{
		`logit_bias={"50256":-100}`, "logprobs=true", "top_logprobs=2", `metadata={"a":"b"}`, "store=false", `service_tier="auto"`, `modalities=["text"]`,
		`prediction={"type":"content","content":"x"}`, "audio=null", "web_search_options={}", `verbosity="low"`, `prompt_cache_key="k"`, `safety_identifier="s"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Unread differs (-want +got):\n%s", diff)
	}
}

func TestRawMembers(t *testing.T) {
	t.Parallel()
	r := good(t, "MCP")
	if !r.HasMCP() || good(t, "least").HasMCP() {
		t.Errorf("HasMCP = %t, %t, want true, false", r.HasMCP(), good(t, "least").HasMCP())
	}
	want := `{"type":"mcp","server_url":"http://example.com","allowed_tools":[],"headers":null,"server_label":null,"require_approval":null}`
	if got := string(r.Tools[1].Raw()); got != want {
		t.Errorf("Tool.Raw = %s, want %s", got, want)
	}
	r = good(t, "escaped keys and words")
	for name, want := range map[string]string{"model": `"\u006d"`, "reasoning_effort": `"l\u006fw"`, "mod": "", "models": "", "other": ""} {
		if got := string(r.Member(name)); got != want {
			t.Errorf("Member(%q) = %s, want %s", name, got, want)
		}
	}
}

func TestParseAllocations(t *testing.T) {
	body := []byte(smallBody)
	if got := testing.AllocsPerRun(100, func() {
		if _, err := Parse(body); err != nil {
			t.Fatal(err)
		}
	}); got > 8 {
		t.Errorf("Parse of %d bytes makes %v allocations, want at most 8", len(body), got)
	}
}

// An earlier reply may have no content: the model refused, or spoke.
func TestRepliesWithoutContent(t *testing.T) {
	t.Parallel()
	const hi = `{"role":"user","content":"hi"}`
	for _, tt := range []struct {
		reply, text string
		foreign     string
	}{
		{`{"role":"assistant","content":null,"refusal":"I will not."}`, "I will not.", ""},
		{`{"role":"assistant","refusal":"I will not.","audio":null,"annotations":[]}`, "I will not.", ""},
		{`{"role":"assistant","content":"So.","refusal":"I will not."}`, "So.", ""},
		{`{"role":"assistant","content":null,"audio":{"id":"audio_1"}}`, "", "messages[1].audio"},
		{`{"role":"assistant","audio":{"id":"audio_1"},"content":"So."}`, "So.", ""},
	} {
		body := `{"model":"m","messages":[` + hi + `,` + tt.reply + `,` + hi + `]}`
		r, err := Parse([]byte(body))
		if err != nil {
			t.Errorf("Parse(%s) = %v", body, err)
			continue
		}
		if got := r.Messages[1].Content.Text(); got != tt.text || r.Foreign().Path != tt.foreign || r.ForeignBesideFiles().Path != tt.foreign {
			t.Errorf("Parse(%s): the reply says %q, and %q is foreign; want %q and %q", body, got, r.Foreign().Path, tt.text, tt.foreign)
		}
		if got := string(r.AppendUpstream(nil, Patch{})); got != body {
			t.Errorf("AppendUpstream of %s = %s, want the same", body, got)
		}
	}
	for _, reply := range []string{`{"role":"assistant","content":null}`, `{"role":"assistant","content":null,"refusal":null}`, `{"role":"assistant","content":null,"refusal":""}`, `{"role":"assistant","audio":"x"}`, `{"role":"user","content":null,"refusal":"x"}`, `{"role":"user","audio":{"id":"x"}}`} {
		if _, err := Parse([]byte(`{"model":"m","messages":[` + hi + `,` + reply + `]}`)); err == nil {
			t.Errorf("a message %s was accepted", reply)
		}
	}
}

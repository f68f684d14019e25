package api_test

import (
	"bytes"
	"encoding/json"
	"html"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"sluice/api"
	"sluice/api/gen/render"
	"sluice/internal/kit/fault"
)

// load reads the served document. Its validation includes the examples of bodies and parameters.
func load(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI())
	if err != nil {
		t.Fatalf("LoadFromData() = %v, want nil", err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableSchemaFormatValidation()); err != nil {
		t.Fatalf("Validate() = %v, want nil", err)
	}
	return doc
}

func schema(t *testing.T, doc *openapi3.T, name string) *openapi3.Schema {
	t.Helper()
	ref := doc.Components.Schemas[name]
	if ref == nil {
		t.Fatalf("components.schemas has no %s", name)
	}
	return ref.Value
}

func decode(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("Unmarshal(%s) = %v, want nil", text, err)
	}
	return v
}

// operations calls f for every operation of the document.
func operations(doc *openapi3.T, f func(path, method string, op *openapi3.Operation)) {
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			f(path, method, op)
		}
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	info := load(t).Info
	if got, want := info.Title+" "+info.Version+" "+info.License.Identifier, "Sluice API 1.0 Apache-2.0"; got != want {
		t.Errorf("info = %q, want %q", got, want)
	}
}

func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := render.Parse(source)
	if err != nil {
		t.Fatalf("Parse(openapi.yaml) = %v, want nil", err)
	}
	page, err := doc.Page()
	if err != nil {
		t.Fatalf("Page() = %v, want nil", err)
	}
	if !bytes.Equal(doc.JSON(), api.OpenAPI()) {
		t.Error("openapi.json.gz is not what openapi.yaml gives: run go generate ./api")
	}
	if !bytes.Equal(page, api.Reference()) {
		t.Error("reference.html is not what openapi.yaml gives: run go generate ./api")
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	var got []string
	operations(load(t), func(path, method string, op *openapi3.Operation) {
		got = append(got, op.OperationID+" "+method+" "+path)
		open := op.Security != nil && len(*op.Security) == 0
		if want := !strings.HasPrefix(path, "/v1/") && path != "/mcp"; open != want {
			t.Errorf("%s %s needs no key = %t, want %t", method, path, open, want)
		}
	})
	slices.Sort(got)
	want := []string{
		"callMcp POST /mcp",
		"cancelResponse POST /v1/responses/{id}/cancel",
		"cancelVideoJob DELETE /v1/video/generations/jobs/{id}",
		"changeBudget PATCH /v1/budgets/{id}",
		"checkHealth GET /healthz",
		"checkReadiness GET /readyz",
		"countInputTokens POST /v1/responses/input_tokens",
		"countMessageTokens POST /v1/messages/count_tokens",
		"createBudget POST /v1/budgets",
		"createChatCompletion POST /v1/chat/completions",
		"createEmbeddings POST /v1/embeddings",
		"createMessage POST /v1/messages",
		"createResponse POST /v1/responses",
		"createVideo POST /v1/videos",
		"createVideoJob POST /v1/video/generations/jobs",
		"deleteBudget DELETE /v1/budgets/{id}",
		"deleteResponse DELETE /v1/responses/{id}",
		"deleteVideo DELETE /v1/videos/{id}",
		"describe GET /openapi.json",
		"downloadVideo GET /v1/video/generations/{id}/content/video",
		"downloadVideoContent GET /v1/videos/{id}/content",
		"endChatCompletion DELETE /v1/chat/completions/{id}/events",
		"endMcpSession DELETE /mcp",
		"explainRoute POST /v1/route",
		"explainUsage GET /v1/usage/explain",
		"followVideoLink GET /files/{file}",
		"getAccount GET /v1/account",
		"getBudget GET /v1/budgets/{id}",
		"getModel GET /v1/models/{id}",
		"getReceipt GET /v1/receipts/{id}",
		"getReceiptRoot GET /v1/receipts/root",
		"getRequest GET /v1/requests/{id}",
		"getResponse GET /v1/responses/{id}", "getSession GET /v1/sessions/{id}",
		"getUsage GET /v1/usage",
		"getVideo GET /v1/videos/{id}",
		"getVideoJob GET /v1/video/generations/jobs/{id}",
		"listBudgets GET /v1/budgets",
		"listCatalogChanges GET /v1/catalog/changes",
		"listModels GET /v1/models",
		"listModelsVerbose GET /v1/models/verbose",
		"listReceiptKeys GET /.well-known/sluice-receipts.json",
		"listReceipts GET /v1/receipts",
		"listRequests GET /v1/requests",
		"listResponseInputItems GET /v1/responses/{id}/input_items", "listSessions GET /v1/sessions",
		"listVideoJobs GET /v1/video/generations/jobs",
		"listVideos GET /v1/videos",
		"rateAnswer POST /v1/feedback",
		"readReference GET /docs",
		"readReferencePage GET /docs/{page}",
		"resumeChatCompletion GET /v1/chat/completions/{id}/events", "resumeKey POST /v1/budgets/resume",
		"sayHello GET /api/hello",
	}
	if !slices.Equal(got, want) {
		t.Errorf("operations = %q, want %q", got, want)
	}
}

// TestResponses checks what every response has: the two headers, and the Error body with its own status
// where it is an error.
func TestResponses(t *testing.T) {
	t.Parallel()
	doc := load(t)
	operations(doc, func(path, method string, op *openapi3.Operation) {
		for status, response := range op.Responses.Map() {
			at := method + " " + path + " " + status
			for _, name := range []string{"x-request-id", "x-sluice-version"} {
				if h := response.Value.Headers[name]; h == nil || !h.Value.Required {
					t.Errorf("%s: header %s = %v, want a required one", at, name, h)
				}
			}
			if status[0] < '4' || path == "/readyz" {
				continue
			}
			body := response.Value.Content.Get("application/json")
			want := "Error"
			if strings.HasPrefix(path, "/v1/messages") {
				want = "MessagesError"
			}
			if path == "/v1/responses" && slices.Contains([]string{"400", "404", "413", "422"}, status) {
				want = "ResponseError"
			}
			if body == nil || body.Schema.Ref != "#/components/schemas/"+want {
				t.Errorf("%s: body = %v, want %s", at, body, want)
				continue
			}
			if want != "Error" { // its statuses share one example
				continue
			}
			if body.Example != nil && !strings.Contains(encode(t, body.Example), `"code":`+status) {
				t.Errorf("%s: example = %v, want code %s", at, body.Example, status)
			}
		}
	})
	chat := doc.Paths.Value("/v1/chat/completions").Post.Responses
	for status, names := range map[string][]string{
		"200": {"x-ratelimit-limit-requests", "x-ratelimit-remaining-tokens"},
		"429": {"Retry-After", "retry-after-ms", "x-should-retry", "x-ratelimit-reset-requests"},
		"503": {"Retry-After", "retry-after-ms", "x-ratelimit-reset-tokens"},
	} {
		for _, name := range names {
			if chat.Value(status).Value.Headers[name] == nil {
				t.Errorf("chat %s: header %s is missing", status, name)
			}
		}
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestErrorTypes holds the description to the vocabulary of package fault.
func TestErrorTypes(t *testing.T) {
	t.Parallel()
	fields := schema(t, load(t), "Error").Properties["error"].Value.Properties
	listed, ok := schema(t, load(t), "Error").Extensions["x-error-types"].([]any)
	if !ok {
		t.Fatal("Error has no x-error-types")
	}
	kinds := 0
	for _, kind := range fault.Kinds() {
		if kind == fault.Forbidden {
			continue // it has the name of another kind
		}
		kinds++
		if !slices.Contains(fields["type"].Value.Enum, any(kind.String())) {
			t.Errorf("error.type does not list %s", kind)
		}
		if !slices.Contains(fields["code"].Value.Enum, any(float64(kind.Status()))) {
			t.Errorf("error.code does not list %d of %s", kind.Status(), kind)
		}
		if !slices.ContainsFunc(listed, func(v any) bool {
			row, _ := v.(map[string]any)
			return row["type"] == kind.String() && row["status"] == float64(kind.Status()) && row["meaning"] != "" && row["remedy"] != ""
		}) {
			t.Errorf("x-error-types does not explain %d %s", kind.Status(), kind)
		}
	}
	if n := len(fields["type"].Value.Enum); n != kinds {
		t.Errorf("error.type lists %d types, want %d", n, kinds)
	}
}

func TestSchemaExamples(t *testing.T) {
	t.Parallel()
	checked := 0
	for name, ref := range load(t).Components.Schemas {
		err := ref.WalkSubtree(func(pointer string, s *openapi3.SchemaRef) error {
			for _, example := range s.Value.Examples {
				checked++
				if err := s.Value.VisitJSON(example, openapi3.EnableJSONSchema2020()); err != nil {
					t.Errorf("%s%s: example %s: %v", name, pointer, encode(t, example), err)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("WalkSubtree(%s) = %v, want nil", name, err)
		}
	}
	if checked < 20 {
		t.Errorf("%d schema examples were checked, want at least 20", checked)
	}
}

// TestWireExamples reads the streams that the reference shows as a client would.
func TestWireExamples(t *testing.T) {
	t.Parallel()
	doc := load(t)
	stream := doc.Paths.Value("/v1/chat/completions").Post.Responses.Value("200").Value.Content.Get("text/event-stream")
	examples, _ := stream.Extensions["x-wire-examples"].([]any)
	if len(examples) == 0 {
		t.Fatal("the stream has no x-wire-examples")
	}
	for _, v := range examples {
		example := v.(map[string]any)
		name, wire := example["summary"].(string), example["wire"].(string)
		events := strings.Split(strings.TrimSpace(wire), "\n\n")
		last := events[len(events)-1]
		if done := last == "data: [DONE]"; done == strings.Contains(wire, `{"error":`) {
			t.Errorf("%s ends with %s, want [DONE] unless it fails", name, last)
		}
		for _, event := range events {
			data, ok := strings.CutPrefix(event, "data: ")
			if !ok || strings.Contains(data, "\n") {
				t.Errorf("%s: event %q is not one data line", name, event)
			}
			if data == "[DONE]" {
				continue
			}
			if err := stream.Schema.Value.VisitJSON(decode(t, data), openapi3.EnableJSONSchema2020()); err != nil {
				t.Errorf("%s: event %s: %v", name, data, err)
			}
		}
	}
}

// TestSchemas holds the schemas to what the contract allows and refuses.
func TestSchemas(t *testing.T) {
	t.Parallel()
	doc := load(t)
	const user = `"model":"m","messages":[{"role":"user","content":"hi"}]`
	const call = `{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}`
	const model = `"id":"m","object":"model","created":1,"owned_by":"o","plan":"free","request_multiplier":0.5,
		"permission":{"context_length":1,"max_output":1,"tool_calling":false}`
	const head = `"id":"chatcmpl-1","created":1,"model":"m"`
	tests := []struct {
		schema, value string
		ok            bool
	}{
		{"ChatCompletionRequest", `{` + user + `}`, true},
		{"ChatCompletionRequest", `{` + user + `,"store":true,"logit_bias":{"1":2},"anything":null}`, true},
		{"ChatCompletionRequest", `{` + user + `,"temperature":null,"tools":null,"tool_choice":null,"stop":null,"response_format":null,"reasoning_effort":null}`, true},
		{"ChatCompletionRequest", `{` + user + `,"temperature":2,"top_p":1,"frequency_penalty":-2,"presence_penalty":2}`, true},
		{"ChatCompletionRequest", `{` + user + `,"temperature":2.1}`, false},
		{"ChatCompletionRequest", `{` + user + `,"top_p":-0.1}`, false},
		{"ChatCompletionRequest", `{` + user + `,"frequency_penalty":-2.1}`, false},
		{"ChatCompletionRequest", `{` + user + `,"presence_penalty":3}`, false},
		{"ChatCompletionRequest", `{` + user + `,"max_tokens":0}`, false},
		{"ChatCompletionRequest", `{` + user + `,"max_completion_tokens":1.5}`, false},
		{"ChatCompletionRequest", `{` + user + `,"stop":["a","b"],"reasoning_effort":"minimal"}`, true},
		{"ChatCompletionRequest", `{` + user + `,"reasoning_effort":"huge"}`, false},
		{"ChatCompletionRequest", `{` + user + `,"stop":[1]}`, false},
		{"ChatCompletionRequest", `{` + user + `,"tools":[],"tool_choice":"none"}`, true},
		{"ChatCompletionRequest", `{` + user + `,"tool_choice":"always"}`, false},
		{"ChatCompletionRequest", `{` + user + `,"tool_choice":{"type":"function","function":{"name":"f"}}}`, true},
		{"ChatCompletionRequest", `{"model":"m","messages":[]}`, false},
		{"ChatCompletionRequest", `{"model":"m"}`, false},
		{"ChatCompletionRequest", `{"messages":[{"role":"user","content":"hi"}]}`, false},
		{"Message", `{"role":"developer","content":"x"}`, true},
		{"Message", `{"role":"user","content":null}`, false},
		{"Message", `{"role":"user"}`, false},
		{"Message", `{"role":"robot","content":"x"}`, false},
		{"Message", `{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"https://i.example/x.png"}}]}`, true},
		{"Message", `{"role":"user","content":[{"type":"video"}]}`, false},
		{"Message", `{"role":"user","content":[]}`, false},
		{"Message", `{"role":"assistant","content":null,"tool_calls":[` + call + `]}`, true},
		{"Message", `{"role":"assistant","tool_calls":[` + call + `]}`, true},
		{"Message", `{"role":"assistant","content":null}`, false},
		{"Message", `{"role":"tool","content":"x","tool_call_id":"c"}`, true},
		{"Message", `{"role":"tool","content":"x"}`, false},
		{"Tool", `{"type":"function","function":{"name":"f"}}`, true},
		{"Tool", `{"type":"function"}`, false},
		{"Tool", `{"type":"function","function":{"name":"a b"}}`, false},
		{"Tool", `{"type":"mcp","server_url":"https://t.example/mcp","require_approval":"always"}`, true},
		{"Tool", `{"type":"mcp"}`, false},
		{"Tool", `{"type":"mcp","server_url":"https://t.example/mcp","require_approval":"sometimes"}`, false},
		{"ResponseFormat", `{"type":"json_schema"}`, false},
		{"ResponseFormat", `{"type":"json_schema","json_schema":{"name":"n"}}`, true},
		{"ResponseFormat", `{"type":"xml"}`, false},
		{"ChatCompletion", `{` + head + `,"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x","refusal":null,"more":1},"logprobs":null,"finish_reason":"stop"}],
			"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"more":{}},"system_fingerprint":null,"more":1}`, true},
		{"ChatCompletion", `{` + head + `,"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"end_turn"}],
			"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, false},
		{"ChatCompletionChunk", `{` + head + `,"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":null}]}`, true},
		{"ChatCompletionChunk", `{` + head + `,"object":"chat.completion.chunk","choices":[{"index":0,"delta":{}}]}`, false},
		{"ChatCompletionChunk", `{` + head + `,"object":"chat.completion.chunk","choices":[],"usage":null}`, false},
		{"ChatCompletionEvent", `{` + head + `,"object":"chat.completion.chunk","choices":[],"error":null}`, false},
		{"ChatCompletionEvent", `{"error":{"message":"m","type":"server_error","code":500}}`, true},
		{"Error", `{"error":{"message":"m","type":"server_error","code":500,"hint":"h"}}`, false},
		{"Error", `{"error":{"message":"m","type":"server_error","code":"500"}}`, false},
		{"Error", `{"error":{"message":"m","type":"oops","code":500}}`, false},
		{"Error", `{"error":{"message":"m","type":"server_error","code":500},"id":"x"}`, false},
		{"ResponseError", `{"error":{"message":"m","type":"invalid_request_error","code":400}}`, true},
		{"ResponseError", `{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}`, true},
		{"ResponseError", `{"error":{"message":"m","type":"invalid_request_error","code":null}}`, false},
		{"Model", `{` + model + `}`, true},
		{"Model", `{` + model + `,"description":"d"}`, false},
		{"ModelVerbose", `{` + model + `,"description":"d","provider":"p"}`, true},
		{"ModelVerbose", `{` + model + `,"more":1}`, false},
		{"ModelVerbose", `{` + model + `,"pricing":{"currency":"USD","unit":"per_million_tokens","input":1,"output":2,"reasoning":2}}`, true},
		{"ModelVerbose", `{` + model + `,"pricing":{"currency":"EUR","unit":"per_million_tokens","input":1,"output":2}}`, false},
		{"ModelList", `{"object":"list","data":[{` + model + `}]}`, true},
		{"ModelList", `{"object":"list","data":[{` + model + `,"provider":"p"}]}`, false},
		{"ModelListVerbose", `{"object":"list","data":[{` + model + `,"provider":"p"}]}`, true},
		{"Health", `{"status":"ok","version":"1"}`, true},
		{"Health", `{"status":"ok"}`, false},
		{"Readiness", `{"status":"unavailable","checks":[{"name":"database","ok":false,"message":"m","age_seconds":1.5}]}`, true},
		{"Readiness", `{"status":"down","checks":[]}`, false},
	}
	for _, tt := range tests {
		err := schema(t, doc, tt.schema).VisitJSON(decode(t, tt.value), openapi3.EnableJSONSchema2020())
		if (err == nil) != tt.ok {
			t.Errorf("%s accepts %s = %t, want %t (%v)", tt.schema, tt.value, err == nil, tt.ok, err)
		}
	}
}

func TestReferenceNamesEveryOperation(t *testing.T) {
	t.Parallel()
	page := string(api.Reference())
	named := api.Operations()
	operations(load(t), func(path, method string, op *openapi3.Operation) {
		if want := (api.Operation{Title: op.Summary, Method: method, Route: path, Page: "/docs/" + op.OperationID}); !slices.Contains(named, want) {
			t.Errorf("Operations lacks %+v", want)
		}
		for _, want := range []string{
			`<section id="` + op.OperationID + `"`,
			`<a href="#` + op.OperationID + `"`,
			`<span class="method ` + method + `">` + method + `</span> <code>` + path + `</code>`,
			"<h3>" + op.Summary + "</h3>",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("reference.html has no %s", want)
			}
		}
	})
	for _, kind := range []fault.Kind{fault.Invalid, fault.KeyDeactivated, fault.RateLimited} {
		if !strings.Contains(page, "<code>"+kind.String()+"</code>") {
			t.Errorf("reference.html does not explain %s", kind)
		}
	}
}

// TestReferenceStandsAlone checks that the page works under a policy that allows inline styles and nothing else.
func TestReferenceStandsAlone(t *testing.T) {
	t.Parallel()
	page := string(api.Reference())
	for _, forbidden := range []string{
		`(?i)<(script|iframe|object|embed|base|form|img|video|audio)\b`,
		`(?i)<[^>]+\s(src|srcset|poster|action|on[a-z]+)\s*=`,
		`(?i)<a[^>]+href="(https?:)?//`,
		`(?i)<link[^>]+stylesheet`,
		`(?i)<[^>]+\sstyle\s*=`,
		`(?i)javascript:`,
	} {
		if found := regexp.MustCompile(forbidden).FindString(page); found != "" {
			t.Errorf("reference.html holds %q, want nothing like %s", found, forbidden)
		}
	}
	_, rest, _ := strings.Cut(page, "<style>")
	style, _, ok := strings.Cut(rest, "</style>")
	if found := regexp.MustCompile(`(?i)url\s*\(|@import|@font-face`).FindString(style); !ok || found != "" {
		t.Errorf("the style holds %q, want one style that loads nothing", found)
	}
	for _, link := range regexp.MustCompile(`<link[^>]*>`).FindAllString(page, -1) {
		if !strings.Contains(link, ` href="data:`) {
			t.Errorf("reference.html loads %s, want only data: links", link)
		}
	}
}

func TestReferenceAnchors(t *testing.T) {
	t.Parallel()
	page := string(api.Reference())
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] {
			t.Errorf("reference.html has the id %s twice", m[1])
		}
		ids[m[1]] = true
	}
	for _, m := range regexp.MustCompile(` (?:href="#|for=")([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if !ids[m[1]] {
			t.Errorf("reference.html points at %s, which is not there", m[1])
		}
	}
}

// The pages of the reference have all of it between them, each under one heading, and their links lead to what they name.
func TestPages(t *testing.T) {
	t.Parallel()
	d := api.Describe(api.Names{Origin: "https://api.example.com", Brand: "acme", Model: "lab/quick", Other: "lab/dear", Embedder: "lab/vectors", Owner: "lab", Head: "<!--head-->", Top: "<!--top-->"})
	names := []string{""}
	operations(load(t), func(_, _ string, op *openapi3.Operation) { names = append(names, op.OperationID) })
	ids, texts := map[string]map[string]bool{}, map[string]string{}
	for _, name := range names {
		page, ok := d.Page(name)
		if !ok {
			t.Fatalf("there is no page %q", name)
		}
		text := string(page.Body)
		texts[name], ids[name] = text, map[string]bool{}
		for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(text, -1) {
			ids[name][m[1]] = true
		}
		if n := strings.Count(text, "<h1"); n != 1 {
			t.Errorf("the page %q has %d headings of level 1, want 1", name, n)
		}
		if n := strings.Count(text, `class="row operation"`); (name == "") != (n == 0) || n > 1 {
			t.Errorf("the page %q has %d operations", name, n)
		}
		if name != "" && (!ids[name][name] || strings.Count(text, `href="/docs/`+name+`" aria-current="page"`) != 1) {
			t.Errorf("the page %q is not marked in its navigation", name)
		}
		for _, want := range []string{"<!--head-->", "<!--top-->", `<main id="content">`, "<footer>", "</html>"} {
			if strings.Count(text, want) != 1 {
				t.Errorf("the page %q has %s %d times, want once", name, want, strings.Count(text, want))
			}
		}
		if strings.Contains(text, "127.0.0.1") || strings.Contains(text, "service-") {
			t.Errorf("the page %q has the names of a default installation", name)
		}
	}
	for name, text := range texts {
		for _, m := range regexp.MustCompile(`href="(?:/docs(?:/(\w+))?)?(?:#([^"]+))?"`).FindAllStringSubmatch(text, -1) {
			to := name
			if strings.HasPrefix(m[0], `href="/docs`) {
				to = m[1]
			}
			if m[2] != "" && !ids[to][m[2]] || to != "all" && texts[to] == "" {
				t.Errorf("the page %q links to %s, which is not there", name, m[0])
			}
		}
	}
	whole, _ := d.Page("all")
	if got := d.Reference(); got.ETag != whole.ETag || !bytes.Contains(whole.Body, []byte(`<section id="sayHello"`)) {
		t.Error("the page of everything is not the whole reference")
	}
	if _, ok := d.Page("nothing"); ok {
		t.Error("there is a page that is not there")
	}
}

// Every default name is replaced, wherever it stands, and nothing else is touched.
func TestDescribe(t *testing.T) {
	t.Parallel()
	defaults := api.Describe(api.Defaults())
	if !bytes.Equal(defaults.OpenAPI().Body, api.OpenAPI()) || !bytes.Equal(defaults.Reference().Body, api.Reference()) {
		t.Error("Describe(Defaults()) is not what the files hold")
	}
	d := api.Describe(api.Names{Origin: "https://api.example.com", Brand: "acme", VideoModel: `clips "1" <x>`, Model: "lab/quick", Other: "lab/dear", Embedder: "lab/vectors", Owner: "Lab & Sons"})
	if _, err := openapi3.NewLoader().LoadFromData(d.OpenAPI().Body); err != nil {
		t.Errorf("the description is not valid: %v", err)
	}
	for name, doc := range map[string]api.Document{"OpenAPI": d.OpenAPI(), "Reference": d.Reference()} {
		text := string(doc.Body)
		if name == "Reference" {
			if strings.Contains(text, "<x>") || strings.Contains(text, "Lab & Sons") {
				t.Errorf("%s: a name is not escaped", name)
			}
			text = html.UnescapeString(text)
		}
		for _, foreign := range []string{"127.0.0.1", "8080", "service-", "service/auto", "service%2Fauto", `"service"`, "video-default", "sandbox/", `"sandbox"`, "Sluice API"} {
			if at := strings.Index(text, foreign); at >= 0 {
				t.Errorf("%s says %q: …%s…", name, foreign, text[max(0, at-60):at+60])
			}
		}
		for _, want := range []string{"https://api.example.com", "acme-", "acme/auto", "acme%2Fauto", `"acme"`, `clips \"1\" <x>`, "lab/quick", "lab/dear", "lab/vectors", `"Lab & Sons"`, "acme API"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %s", name, want)
			}
		}
		if !regexp.MustCompile(`^"[0-9a-f]{32}"$`).MatchString(doc.ETag) {
			t.Errorf("%s: ETag %s", name, doc.ETag)
		}
	}
	if d.OpenAPI().ETag == defaults.OpenAPI().ETag {
		t.Error("two descriptions have one ETag")
	}
	// What follows a brand must be a mark: "self-service-desk" would be rewritten, too.
	for _, found := range regexp.MustCompile(`[A-Za-z]service-|[A-Za-z]service/auto`).FindAll(slices.Concat(api.OpenAPI(), api.Reference()), -1) {
		t.Errorf("the description says %q, which Describe takes for a name", found)
	}
}

package oracles

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

const (
	bedrockModel    = "aws/sonnet"
	bedrockUpstream = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
	novaModel       = "aws/nova"
	novaUpstream    = "amazon.nova-pro-v1:0"
	bedrockRegion   = "eu-west-3"
	bedrockKeyID    = "AKIAEXAMPLE"
)

// bedrockUnions are the variants of the SDK's unions, by the name that each has on the wire.
var bedrockUnions = map[reflect.Type]map[string]reflect.Type{
	reflect.TypeFor[types.ContentBlock](): {
		"text": reflect.TypeFor[types.ContentBlockMemberText](), "image": reflect.TypeFor[types.ContentBlockMemberImage](),
		"toolUse": reflect.TypeFor[types.ContentBlockMemberToolUse](), "toolResult": reflect.TypeFor[types.ContentBlockMemberToolResult](),
		"reasoningContent": reflect.TypeFor[types.ContentBlockMemberReasoningContent](),
	},
	reflect.TypeFor[types.ReasoningContentBlock](): {
		"reasoningText": reflect.TypeFor[types.ReasoningContentBlockMemberReasoningText](), "redactedContent": reflect.TypeFor[types.ReasoningContentBlockMemberRedactedContent](),
	},
	reflect.TypeFor[types.SystemContentBlock]():     {"text": reflect.TypeFor[types.SystemContentBlockMemberText]()},
	reflect.TypeFor[types.ToolResultContentBlock](): {"text": reflect.TypeFor[types.ToolResultContentBlockMemberText]()},
	reflect.TypeFor[types.ImageSource]():            {"bytes": reflect.TypeFor[types.ImageSourceMemberBytes]()},
	reflect.TypeFor[types.Tool]():                   {"toolSpec": reflect.TypeFor[types.ToolMemberToolSpec]()},
	reflect.TypeFor[types.ToolInputSchema]():        {"json": reflect.TypeFor[types.ToolInputSchemaMemberJson]()},
	reflect.TypeFor[types.ToolChoice]():             {"any": reflect.TypeFor[types.ToolChoiceMemberAny](), "tool": reflect.TypeFor[types.ToolChoiceMemberTool]()},
	reflect.TypeFor[types.OutputFormatStructure]():  {"jsonSchema": reflect.TypeFor[types.OutputFormatStructureMemberJsonSchema]()},
}

// fill decodes JSON into the SDK's types, which have no decoder for requests. A member that they do not
// have is an error; those that they require the SDK looks for when it sends them.
func fill(v reflect.Value, from any, path string) error {
	if v.Type() == reflect.TypeFor[document.Interface]() {
		v.Set(reflect.ValueOf(document.NewLazyDocument(from)))
		return nil
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return fill(v.Elem(), from, path)
	}
	wrong := fmt.Errorf("%s is %v, want a %s", path, from, v.Type())
	switch from := from.(type) {
	case map[string]any:
		return fillMembers(v, from, path)
	case []any:
		if v.Kind() != reflect.Slice {
			return wrong
		}
		v.Set(reflect.MakeSlice(v.Type(), len(from), len(from)))
		for i := range from {
			if err := fill(v.Index(i), from[i], fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case string:
		if v.Type() == reflect.TypeFor[[]byte]() {
			raw, err := base64.StdEncoding.DecodeString(from)
			v.SetBytes(raw)
			return err
		}
		if v.Kind() != reflect.String {
			return wrong
		}
		v.SetString(from)
	case float64:
		switch v.Kind() {
		case reflect.Int32:
			v.SetInt(int64(from))
		case reflect.Float32:
			v.SetFloat(from)
		default:
			return wrong
		}
	case bool:
		if v.Kind() != reflect.Bool {
			return wrong
		}
		v.SetBool(from)
	default:
		return wrong
	}
	return nil
}

// fillMembers decodes an object into a structure, or into the one variant of a union.
func fillMembers(v reflect.Value, from map[string]any, path string) error {
	if variants, ok := bedrockUnions[v.Type()]; ok {
		for name, value := range from {
			variant, ok := variants[name]
			if !ok || len(from) != 1 {
				return fmt.Errorf("%s is %v, want one known variant", path, from)
			}
			made := reflect.New(variant)
			if err := fill(made.Elem().FieldByName("Value"), value, path+"."+name); err != nil {
				return err
			}
			v.Set(made)
		}
		return nil
	}
	for name, value := range from {
		field := reflect.Value{}
		if v.Kind() == reflect.Struct {
			field = v.FieldByName(strings.ToUpper(name[:1]) + name[1:])
		}
		if !field.IsValid() {
			return fmt.Errorf("%s.%s is not known", path, name)
		}
		if err := fill(field, value, path+"."+name); err != nil {
			return err
		}
	}
	return nil
}

// bedrockUp is a fake Bedrock. It notes what it is asked, whoever asks, and checks the signature.
type bedrockUp struct {
	url string

	mu      sync.Mutex
	asked   []bedrockAsk
	problem error
	reply   func(body map[string]any) bedrockReply
}

type bedrockAsk struct {
	model string
	body  []byte
}

// bedrockReply is what it answers: content blocks as they are in one piece.
type bedrockReply struct {
	content []map[string]any
	stop    types.StopReason
}

func startBedrock(t *testing.T, reply func(map[string]any) bedrockReply) (*gateway, *bedrockUp) {
	t.Helper()
	up := &bedrockUp{reply: reply}
	server := httptest.NewServer(up)
	t.Cleanup(server.Close)
	up.url = server.URL
	return startGateway(t, fmt.Sprintf(`providers:
  - {name: aws, kind: bedrock, base_url: "%s", region: %s, access_key_id: %s, secret_access_key: "%s", allow_image_urls: true}
models:
  - {id: %s, provider: aws, upstream: "%s", plan: basic, context_length: 200000, max_output: 64000, tool_calling: true, reasoning: true}
  - {id: %s, provider: aws, upstream: "%s", plan: basic, context_length: 300000, max_output: 10000, tool_calling: true}
`, up.url, bedrockRegion, bedrockKeyID, upstreamKey, bedrockModel, bedrockUpstream, novaModel, novaUpstream)), up
}

// client is AWS's own client of the fake.
func (u *bedrockUp) client() *bedrockruntime.Client {
	return bedrockruntime.New(bedrockruntime.Options{
		Region: bedrockRegion, BaseEndpoint: aws.String(u.url), Credentials: credentials.NewStaticCredentialsProvider(bedrockKeyID, upstreamKey, ""),
		RetryMaxAttempts: 1,
	})
}

func (u *bedrockUp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	path := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/model/"), "/")
	model, err := url.PathUnescape(path[0])
	if err == nil {
		err = verifySignature(r, body)
	}
	var asked map[string]any
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		u.problem = fmt.Errorf("%w in %s", err, body)
		http.Error(w, `{"message":"not understood"}`, http.StatusBadRequest)
		return
	}
	u.asked = append(u.asked, bedrockAsk{model, body})
	reply := u.reply(asked)
	if path[1] == "converse" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"output": map[string]any{"message": map[string]any{"role": "assistant", "content": reply.content}}, "stopReason": reply.stop,
			"usage": bedrockUsage, "metrics": map[string]any{"latencyMs": 7},
		})
		return
	}
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	reply.stream(w)
}

// bedrockUsage are the figures of every reply.
var bedrockUsage = map[string]any{"inputTokens": 30, "cacheReadInputTokens": 8, "cacheWriteInputTokens": 2, "outputTokens": 42, "totalTokens": 82}

// stream writes the reply as frames, its texts and arguments in pieces.
func (r bedrockReply) stream(w io.Writer) {
	send := func(kind string, payload map[string]any) {
		raw, err := json.Marshal(payload)
		if err != nil {
			panic(err) // maps encode
		}
		m := eventstream.Message{Payload: raw}
		m.Headers.Set(":message-type", eventstream.StringValue("event"))
		m.Headers.Set(":event-type", eventstream.StringValue(kind))
		m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
		_ = eventstream.NewEncoder().Encode(w, m)
	}
	send("messageStart", map[string]any{"role": "assistant"})
	for i, block := range r.content {
		deltas := []map[string]any{}
		switch {
		case block["text"] != nil:
			for _, piece := range pieces(block["text"].(string)) {
				deltas = append(deltas, map[string]any{"text": piece})
			}
		case block["toolUse"] != nil:
			use := block["toolUse"].(map[string]any)
			send("contentBlockStart", map[string]any{"contentBlockIndex": i, "start": map[string]any{"toolUse": map[string]any{"toolUseId": use["toolUseId"], "name": use["name"]}}})
			raw, _ := json.Marshal(use["input"])
			for _, piece := range pieces(string(raw)) {
				deltas = append(deltas, map[string]any{"toolUse": map[string]any{"input": piece}})
			}
		default:
			deltas = thoughtDeltas(block["reasoningContent"].(map[string]any))
		}
		for _, d := range deltas {
			send("contentBlockDelta", map[string]any{"contentBlockIndex": i, "delta": d})
		}
		send("contentBlockStop", map[string]any{"contentBlockIndex": i})
	}
	send("messageStop", map[string]any{"stopReason": r.stop})
	send("metadata", map[string]any{"usage": bedrockUsage, "metrics": map[string]any{"latencyMs": 7}})
}

func thoughtDeltas(thought map[string]any) (deltas []map[string]any) {
	add := func(name, value string) {
		deltas = append(deltas, map[string]any{"reasoningContent": map[string]any{name: value}})
	}
	if redacted, ok := thought["redactedContent"].(string); ok {
		add("redactedContent", redacted)
		return deltas
	}
	text := thought["reasoningText"].(map[string]any)
	for _, piece := range pieces(text["text"].(string)) {
		add("text", piece)
	}
	add("signature", text["signature"].(string))
	return deltas
}

// verifySignature signs the request once more.
func verifySignature(r *http.Request, body []byte) error {
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return err
	}
	again := &http.Request{Method: r.Method, URL: r.URL, Host: r.Host, ContentLength: r.ContentLength, Header: http.Header{}}
	_, names, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	names, _, _ = strings.Cut(names, ",")
	for name := range strings.SplitSeq(names, ";") {
		if values := r.Header.Values(name); len(values) > 0 && !strings.HasPrefix(name, "x-amz-date") {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	sum := sha256.Sum256(body)
	keys := aws.Credentials{AccessKeyID: bedrockKeyID, SecretAccessKey: upstreamKey}
	if err := v4.NewSigner().SignHTTP(context.Background(), keys, again, hex.EncodeToString(sum[:]), "bedrock", bedrockRegion, at); err != nil {
		return err
	}
	if got, want := r.Header.Get("Authorization"), again.Header.Get("Authorization"); got != want {
		return fmt.Errorf("the signature is %s, want %s", got, want)
	}
	return nil
}

// ask is the request that came n-th, and fails the test where one was not understood.
func (u *bedrockUp) ask(t *testing.T, n int) bedrockAsk {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.problem != nil {
		t.Fatalf("the upstream does not understand: %v", u.problem)
	}
	if len(u.asked) <= n {
		t.Fatalf("the upstream was asked %d times, want at least %d", len(u.asked), n+1)
	}
	return u.asked[n]
}

// understood has AWS's client read a body into its types and send it again: it must be the same.
func (u *bedrockUp) understood(t *testing.T, asked bedrockAsk) *bedrockruntime.ConverseInput {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(asked.body, &body); err != nil {
		t.Fatal(err)
	}
	in := &bedrockruntime.ConverseInput{ModelId: aws.String(asked.model)}
	if err := fill(reflect.ValueOf(in).Elem(), body, "body"); err != nil {
		t.Fatalf("the SDK does not know %s: %v", asked.body, err)
	}
	echo := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		echo <- raw
		http.Error(w, `{"message":"seen"}`, http.StatusBadRequest)
	}))
	defer server.Close()
	c := (&bedrockUp{url: server.URL}).client()
	_, err := c.Converse(soon(t), in)
	select {
	case raw := <-echo:
		var again map[string]any
		if err := json.Unmarshal(raw, &again); err != nil || !reflect.DeepEqual(body, again) {
			t.Errorf("the SDK sends %s for %s", raw, asked.body)
		}
	default:
		t.Errorf("the SDK does not send %s: %v", asked.body, err)
	}
	return in
}

// bedrockTurns thinks, calls two tools at once, and answers when their results are there.
func bedrockTurns(body map[string]any) bedrockReply {
	if raw, _ := json.Marshal(body["messages"]); strings.Contains(string(raw), "toolResult") {
		return bedrockReply{[]map[string]any{{"text": "18 and 09:41."}}, types.StopReasonEndTurn}
	}
	return bedrockReply{[]map[string]any{
		{"reasoningContent": map[string]any{"reasoningText": map[string]any{"text": "Both are needed.", "signature": "c2lnbmF0dXJl"}}},
		{"reasoningContent": map[string]any{"redactedContent": "cmVkYWN0ZWQ="}},
		{"text": "I will look."},
		{"toolUse": map[string]any{"toolUseId": "tooluse_1", "name": "get_weather", "input": map[string]any{"city": "Paris"}}},
		{"toolUse": map[string]any{"toolUseId": "tooluse_2", "name": "get_time", "input": map[string]any{"city": "Tokyo"}}},
	}, types.StopReasonToolUse}
}

// TestBedrockRoundTrip has openai-go, which sends standard fields alone, do two turns with parallel
// calls and thinking on. What was signed must be back as it came, and in its place; AWS's own client
// must understand all that went up, and read the same of what came down.
func TestBedrockRoundTrip(t *testing.T) {
	t.Parallel()
	for _, streaming := range []bool{false, true} {
		t.Run(fmt.Sprintf("streamed %t", streaming), func(t *testing.T) {
			t.Parallel()
			g, up := startBedrock(t, bedrockTurns)
			p := withTools(params(bedrockModel, "Weather in Paris, time in Tokyo?"))
			p.ReasoningEffort = shared.ReasoningEffortHigh
			if message := roundTrip(t, newClient(t, g, g.owner), &p, streaming); message != "18 and 09:41." {
				t.Errorf("the second turn = %q, want the answer", message)
			}
			first, second := up.understood(t, up.ask(t, 0)), up.understood(t, up.ask(t, 1))
			if len(second.Messages) != 3 || len(second.Messages[1].Content) != 5 || len(second.Messages[2].Content) != 2 {
				t.Fatalf("the second request has the turns %+v, want the user's, the model's and the results", second.Messages)
			}
			var sent struct {
				Messages []struct{ Content []map[string]any }
			}
			if err := json.Unmarshal(up.ask(t, 1).body, &sent); err != nil {
				t.Fatal(err)
			}
			if got, want := sent.Messages[1].Content, bedrockTurns(nil).content; !reflect.DeepEqual(got, want) {
				t.Errorf("the model's turn came back as %v, want %v", got, want)
			}
			up.read(t, first)
		})
	}
}

// read has AWS's client read the reply to a request, in one piece and as a stream.
func (u *bedrockUp) read(t *testing.T, in *bedrockruntime.ConverseInput) {
	t.Helper()
	whole, err := u.client().Converse(soon(t), in)
	if err != nil {
		t.Fatalf("Converse = %v", err)
	}
	m, ok := whole.Output.(*types.ConverseOutputMemberMessage)
	if !ok || len(m.Value.Content) != 5 || whole.StopReason != types.StopReasonToolUse || *whole.Usage.CacheReadInputTokens != 8 {
		t.Errorf("Converse = %+v, want the five blocks of the reply", whole)
	}
	out, err := u.client().ConverseStream(soon(t), &bedrockruntime.ConverseStreamInput{ModelId: in.ModelId, Messages: in.Messages, InferenceConfig: in.InferenceConfig, ToolConfig: in.ToolConfig})
	if err != nil {
		t.Fatalf("ConverseStream = %v", err)
	}
	defer out.GetStream().Close()
	text, thought, arguments, events := "", "", "", 0
	for ev := range out.GetStream().Events() {
		events++
		d, ok := ev.(*types.ConverseStreamOutputMemberContentBlockDelta)
		if !ok {
			continue
		}
		switch d := d.Value.Delta.(type) {
		case *types.ContentBlockDeltaMemberText:
			text += d.Value
		case *types.ContentBlockDeltaMemberToolUse:
			arguments += *d.Value.Input
		case *types.ContentBlockDeltaMemberReasoningContent:
			if r, ok := d.Value.(*types.ReasoningContentBlockDeltaMemberText); ok {
				thought += r.Value
			}
		}
	}
	if text != "I will look." || thought != "Both are needed." || arguments != `{"city":"Paris"}{"city":"Tokyo"}` || out.GetStream().Err() != nil {
		t.Errorf("ConverseStream = %q, %q and %q in %d events, %v", text, thought, arguments, events, out.GetStream().Err())
	}
}

// TestBedrockRequests sends requests of every kind that the dialect has words for, to a model of each
// kind; AWS's own client must understand them.
func TestBedrockRequests(t *testing.T) {
	t.Parallel()
	g, up := startBedrock(t, func(map[string]any) bedrockReply {
		return bedrockReply{[]map[string]any{{"text": "{}"}}, types.StopReasonEndTurn}
	})
	c := newClient(t, g, g.owner)
	n := 0
	for _, model := range []string{bedrockModel, novaModel} {
		for i, change := range requestsOfEveryKind() {
			p := params(model, "Hello")
			change(&p)
			if _, err := c.Chat.Completions.New(soon(t), p); err != nil {
				t.Errorf("%s: request %d = %v", model, i, err)
			}
			up.understood(t, up.ask(t, n))
			n++
		}
	}
	p := params(novaModel, "What is it?")
	p.Messages = append(p.Messages, openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
		openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "https://example.com/cat.png"}),
	}))
	_, err := c.Chat.Completions.New(soon(t), p)
	if refusal, ok := errors.AsType[*openai.Error](err); !ok || refusal.StatusCode != http.StatusBadRequest || !strings.Contains(refusal.RawJSON(), "data: URL") {
		t.Errorf("New with an image's address = %v, want a 400 that says what to do", err)
	}
}

package mcpserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
)

func TestReadMessage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, method, id, requestID, arguments, envelope string }{
		{body: `{"jsonrpc":"2.0","id":7,"method":"ping"}`, method: "ping", id: "7"},
		{body: ` { "id" : "a" , "method":"tools/list", "params":{} } `, method: "tools/list", id: `"a"`},
		{body: `{"method":"notifications/cancelled","params":{"requestId":"x\"}"}}`, method: "notifications/cancelled", requestID: `"x\"}"`},
		{
			body: `{"id":1,"method":"tools/call","params":{"name":"f","arguments":{"a":[1,{"b":"}]"}],"c":null} ,"_meta":{}}}`, method: "tools/call", id: "1",
			arguments: `{"a":[1,{"b":"}]"}],"c":null}`, envelope: `{"id":1,"method":"tools/call","params":{"name":"f","arguments":{} ,"_meta":{}}}`,
		},
		{body: `{"method":"tools/call","params":{"arguments":[1,2]}}`, method: "tools/call", arguments: "[1,2]", envelope: `{"method":"tools/call","params":{"arguments":{}}}`},
		{body: `{"method":"tools/call","params":{"arguments":null}}`, method: "tools/call", arguments: "null", envelope: `{"method":"tools/call","params":{"arguments":{}}}`},
		{body: `{"method":"other","params":{"arguments":{"a":1}}}`, method: "other"},
		{body: `{"method":5,"params":[1]}`},
		{body: `{"\ud800":"\udc00","m\u0065thod":"ping\ud83d"}`, method: "ping\ufffd"},
		{body: `{}`},
		{body: `"text"`},
	} {
		if tt.envelope == "" {
			tt.envelope = tt.body
		}
		m, err := readMessage([]byte(tt.body))
		if err != nil || m.method != tt.method || string(m.id) != tt.id || string(m.requestID) != tt.requestID || string(m.arguments) != tt.arguments || string(m.envelope) != tt.envelope {
			t.Errorf("readMessage(%s) = %+v (%s), %v, want %+v", tt.body, m, m.envelope, err, tt)
		}
	}
	for body, want := range map[string]fault.Kind{
		"":                          fault.Invalid,
		`{"a":`:                     fault.Invalid,
		` [{"method":"ping"}]`:      fault.Invalid,
		`{"a":1}{"b":2}`:            fault.Invalid,
		large("tools/list", "x"):    fault.TooLarge,
		large("tools/call", "name"): fault.TooLarge,
	} {
		if _, err := readMessage([]byte(body)); !fault.Is(err, want) {
			t.Errorf("readMessage(%.80s) = %v, want %v", body, err, want)
		}
	}
}

// large is a message with a long value.
func large(method, member string) string {
	return fmt.Sprintf(`{"method":%q,"params":{%q:%q}}`, method, member, strings.Repeat("x", maxEnvelope))
}

// FuzzReadMessage compares the parts with what encoding/json finds.
func FuzzReadMessage(f *testing.F) {
	f.Add(`{"id":1,"method":"tools/call","params":{"name":"f","arguments":{"a":[1,"]"]},"_meta":{"progressToken":1}}}`)
	f.Add(` {"params" : { "arguments" : -1.5e3 , "requestId":"\\\"" } , "method":"tools/call" }`)
	f.Fuzz(func(t *testing.T, body string) {
		m, err := readMessage([]byte(body))
		if err != nil {
			return
		}
		if !json.Valid(m.envelope) {
			t.Errorf("readMessage(%q).envelope = %q, which is no JSON", body, m.envelope)
		}
		var want struct {
			Method any
			Params json.RawMessage
		}
		if strings.Count(body, `"method"`) != 1 || strings.Count(body, `"params"`) != 1 || strings.Count(body, `"arguments"`) > 1 || strings.Contains(body, `\u`) || json.Unmarshal([]byte(body), &want) != nil || want.Method != "tools/call" {
			return // a member twice, or spelled otherwise, is the client's loss
		}
		var params map[string]json.RawMessage
		if json.Unmarshal(want.Params, &params) == nil && string(params["arguments"]) != string(m.arguments) && params["arguments"] != nil {
			t.Errorf("readMessage(%q).arguments = %q, want %q", body, m.arguments, params["arguments"])
		}
	})
}

// The memory for a message is a small multiple of its size, whatever it contains.
func TestMessageMemory(t *testing.T) {
	const size, most = 2 << 20, 16 << 20 // what holds for 2 MiB holds for 8
	s := New(Sources{API: func(int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, whole)
		})
	}}, nil)
	fill := func(piece string) string { return strings.Repeat(piece, size/len(piece)-100) + piece[:len(piece)-1] }
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`
	const other = `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`
	for name, body := range map[string]string{
		"a prompt":          fmt.Sprintf(call, "chat_completion", `{"model":"m","messages":[{"role":"user","content":"`+strings.Repeat("x", size)+`"}]}`),
		"empty arrays":      fmt.Sprintf(call, "chat_completion", `{"a":[`+fill("[],")+`]}`),
		"members":           fmt.Sprintf(call, "chat_completion", `{`+fill(`"":{},`)+`}`),
		"other arguments":   fmt.Sprintf(call, "list_models", `{"a":[`+fill("0,")+`]}`),
		"no such tool":      fmt.Sprintf(call, "none", `{"a":[`+fill("0,")+`]}`),
		"a name":            fmt.Sprintf(call, strings.Repeat("x", size), `{}`),
		"an id":             fmt.Sprintf(other, "["+fill("[],")+"]", "tools/call", `{"name":"list_models"}`),
		"a progress token":  fmt.Sprintf(other, "1", "tools/call", `{"name":"list_models","_meta":{"progressToken":[`+fill("[],")+`]}}`),
		"parameters":        fmt.Sprintf(other, "1", "initialize", `{"capabilities":[`+fill("{},")+`]}`),
		"batch":             "[" + fill(`{"jsonrpc":"2.0","id":1,"method":"ping"},`) + "]",
		"a batch of arrays": "[" + fill("[],") + "]",
		"garbage":           strings.Repeat("[", size),
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
		w := httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = s.Serve(w, r, []byte(body), auth.Caller{Account: &account.Account{ID: "a"}}, 0) // refused or not
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%s: a message of %d MiB takes %d MiB, want at most %d", name, len(body)>>20, took>>20, most>>20)
		} else {
			t.Logf("%s: %d MiB", name, took>>20)
		}
	}
}

// How the reply travels is not the caller's choice, however the caller spells it.
func TestChatBody(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{`{"model":"m","stream":true}`, `{"model":"m","\u0073tream":true,"stream_options":{"include_usage":true}}`, `{"stre\u0061m_options":1,"model":"m"}`} {
		if body, ok := chatBody([]byte(arguments), false); !ok || string(body) != `{"model":"m"}` {
			t.Errorf("chatBody(%s) = %s, %t, want the model alone", arguments, body, ok)
		}
	}
}

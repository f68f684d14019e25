package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/operate/admin"
)

// toolResult is what the MCP server says of a call.
type toolResult struct {
	IsError bool
	Content []struct{ Text string }
	Meta    struct {
		Error struct {
			Type string
			Code int
		}
	} `json:"_meta"`
}

// callTool calls a tool of the MCP server.
func (n *node) callTool(key, tool, arguments string) toolResult {
	n.t.Helper()
	r := n.request("POST", "/mcp", key, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments))
	var reply struct{ Result toolResult }
	if err := json.Unmarshal([]byte(r.body), &reply); err != nil || r.status != 200 || len(reply.Result.Content) != 1 {
		n.t.Fatalf("%s = %d %s, want a result", tool, r.status, r.body)
	}
	return reply.Result
}

// The MCP server's calls are those of the API: the same limits, the same words, the same books.
func TestMCPServer(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	one := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "one@example.com", Plan: "none"})
	two := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "two@example.com", Plan: "free"})
	const hello = `{"model":"sandbox/small","messages":[{"role":"user","content":"Hello"}]}`

	for range 2 { // all that the minute has
		if got := n.callTool(one.MasterKey, "chat_completion", hello); got.IsError || !strings.Contains(got.Content[0].Text, `"object":"chat.completion"`) {
			t.Errorf("chat_completion = %+v, want a completion", got)
		}
	}
	limited := n.callTool(one.MasterKey, "chat_completion", hello)
	if !limited.IsError || limited.Meta.Error.Type != "rate_limit_error" || limited.Meta.Error.Code != 429 || !strings.Contains(limited.Content[0].Text, "The limit is 2 requests a minute; 2 are used") {
		t.Errorf("chat_completion = %+v, want the limit", limited)
	}
	for arguments, want := range map[string]int{
		strings.Replace(hello, "sandbox/small", "service/auto", 1): 402,
		strings.Replace(hello, "sandbox/small", "none", 1):         400,
		`{}`: 400,
	} {
		got := n.callTool(one.MasterKey, "chat_completion", arguments)
		direct := n.request("POST", "/v1/chat/completions", one.MasterKey, arguments)
		if !got.IsError || got.Meta.Error.Code != want || direct.status != want || !strings.Contains(direct.body, strings.ReplaceAll(got.Content[0].Text, `"`, `\"`)) {
			t.Errorf("chat_completion(%s) = %+v, want a %d like %s", arguments, got, want, direct.body)
		}
	}
	if got, direct := n.callTool(one.MasterKey, "list_models", `{"verbose":true}`), n.get("/v1/models?format=verbose", one.MasterKey); got.Content[0].Text != direct.body {
		t.Errorf("list_models = %+v, want %s", got, direct.body)
	}
	// The books wait only a moment for what has just been settled.
	eventually(t, "model_analytics with the two calls", func() bool {
		text := n.callTool(one.MasterKey, "model_analytics", `{"window":"1h"}`).Content[0].Text
		return strings.Contains(text, `{"model":"sandbox/small","requests":2,`) && strings.Contains(text, `"availability":1,`)
	})
	if got := n.callTool(two.MasterKey, "model_analytics", `{}`); !strings.Contains(got.Content[0].Text, `"models":[],"service":{"status":"operational"`) {
		t.Errorf("model_analytics of another account = %+v, want none", got)
	}

	must[any](n, "account.suspend", admin.Target{Actor: "t", Ref: one.ID, Reason: "r"})
	must[any](n, "key.deactivate", admin.Target{Actor: "t", Ref: two.ID, Reason: "r"})
	for _, tt := range []struct {
		key    string
		status int
		kind   string
	}{{"", 401, "authentication_error"}, {"service-unknown", 401, "authentication_error"}, {two.MasterKey, 401, "key_deactivated"}, {one.MasterKey, 423, "account_suspended"}} {
		r := n.request("POST", "/mcp", tt.key, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
		if r.status != tt.status || !strings.Contains(r.body, `"type":"`+tt.kind+`"`) || r.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("POST /mcp with the key %q = %d %s, want %d %s", tt.key, r.status, r.body, tt.status, tt.kind)
		}
	}
}

// The MCP server can be the tool of a chat request, two deep.
func TestMCPServerNested(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	defer n.stop()
	self := fmt.Sprintf(`{"type":"mcp","server_label":"self","server_url":"http://%s/mcp","headers":{"Authorization":"Bearer %s"}}`, n.Addr(), n.OwnerKey())
	body := `{"model":"sandbox/small","messages":[{"role":"user","content":"innermost"}]}`
	for depth := range 4 {
		r := n.request("POST", "/v1/chat/completions", n.OwnerKey(), body)
		refused := strings.Contains(r.body, "its calls are nested more than 2 deep")
		if r.status != 200 || !strings.Contains(r.body, "innermost") || refused != (depth == 3) {
			t.Errorf("%d deep: POST = %d %s, want an answer, refused inside only at 3", depth, r.status, r.body)
		}
		if depth < 3 && !strings.Contains(r.body, "This is the sandbox model.") {
			t.Errorf("%d deep: POST = %s, want the innermost answer", depth, r.body)
		}
		call, err := json.Marshal("[[sandbox:call=self__chat_completion " + body + "]]")
		if err != nil {
			t.Fatal(err)
		}
		body = fmt.Sprintf(`{"model":"sandbox/small","messages":[{"role":"user","content":%s}],"tools":[%s]}`, call, self)
	}
}

package app_test

import (
	"encoding/json"
	"fmt"
	"go/constant"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/app/config"
)

// scriptedTools is an MCP server with one tool, work. Tools is its list, and result what a call brings.
func scriptedTools(t *testing.T, tools, result string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		_ = json.NewDecoder(r.Body).Decode(&call)
		answer := map[string]string{
			"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}`,
			"tools/list": tools,
			"tools/call": result,
		}[call.Method]
		if answer == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, toolReply, call.ID, answer)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

const (
	toolReply = `{"jsonrpc":"2.0","id":%s,"result":%s}`
	workTool  = `{"tools":[{"name":"work","inputSchema":{"type":"object"}}]}`
	worked    = `{"content":[{"type":"text","text":"done"}]}`
)

// describedTool is a list of tools in n bytes.
func describedTool(n int64) string {
	const head, tail = `{"tools":[{"name":"work","inputSchema":{"type":"object"},"description":"`, `"}]}`
	return head + strings.Repeat("x", int(n)-len(head+tail)) + tail
}

// choosyTool is a list of tools that comes in a message of n JSON values: one behind each comma, brace and bracket.
func choosyTool(n int64) string {
	const head, tail = `{"tools":[{"name":"work","inputSchema":{"type":"object","properties":{"a":{"enum":[`, `]}}}}]}`
	for _, c := range fmt.Sprintf(toolReply, "1", head+tail) {
		if strings.ContainsRune(",{[", c) {
			n--
		}
	}
	return head + list(n+1, func(int64) string { return "1" }) + tail
}

// servers is the member tools of a request, with an MCP server at each address.
func servers(addresses ...string) string {
	return `,"tools":[` + list(int64(len(addresses)), func(i int64) string {
		label := "t"
		if i > 0 {
			label += fmt.Sprint(i)
		}
		return fmt.Sprintf(`{"type":"mcp","server_label":%q,"server_url":%q}`, label, addresses[i])
	}) + `]`
}

// message sends a message to our own MCP server.
func (s *stage) message(t *testing.T, key, text string) reply {
	t.Helper()
	return s.node(t).request("POST", "/mcp", key, text)
}

var toolTries = map[string]try{
	"tool servers of a chat request": func(t *testing.T, s *stage, b bound) {
		key, address := s.account(t).MasterKey, scriptedTools(t, workTool, worked)
		ask := func(n int64) reply {
			var all []string
			for range n {
				all = append(all, address)
			}
			return s.ask(t, key, "say 2", servers(all...))
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"address of a tool server": func(t *testing.T, s *stage, b bound) {
		key, address := s.account(t).MasterKey, scriptedTools(t, workTool, worked)+"/"
		ask := func(n int64) reply {
			return s.ask(t, key, "say 2", servers(address+strings.Repeat("a", int(n)-len(address))))
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"headers for a tool server": func(t *testing.T, s *stage, b bound) {
		key, address := s.account(t).MasterKey, scriptedTools(t, workTool, worked)
		ask := func(n int64) reply {
			headers := list(n, func(i int64) string { return fmt.Sprintf(`"x-%d":"v"`, i) })
			return s.ask(t, key, "say 2", fmt.Sprintf(`,"tools":[{"type":"mcp","server_label":"t","server_url":%q,"headers":{%s}}]`, address, headers))
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"header for a tool server": func(t *testing.T, s *stage, b bound) {
		key, address := s.account(t).MasterKey, scriptedTools(t, workTool, worked)
		ask := func(n int64) reply {
			return s.ask(t, key, "say 2", fmt.Sprintf(`,"tools":[{"type":"mcp","server_label":"t","server_url":%q,"headers":{"x-a":"%s"}}]`, address, strings.Repeat("v", int(n))))
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"result of a tool server": func(t *testing.T, s *stage, b bound) {
		cfg, err := config.Load(config.Source{Path: s.running.site.file})
		if err != nil || int64(cfg.MCP.MaxResult) != b.n {
			t.Fatalf("%s is %d, %v, want %d", b.where, cfg.MCP.MaxResult, err, b.n)
		}
		value, found := constantOf(t, "upstream/mcpclient/bounds.go", "envelope")
		around, _ := constant.Int64Val(value)
		if !found {
			t.Fatal("mcpclient has no constant envelope")
		}
		b.says(t, fmt.Sprintf("tool error (%d KiB more are free for the message around it)", around>>10))
		key := s.account(t).MasterKey
		for size, want := range map[int64]string{b.n: "fine", b.n + around: "a tool error"} {
			const head, tail = `{"content":[{"type":"text","text":"`, `"}]}`
			address := scriptedTools(t, workTool, head+strings.Repeat("x", int(size)-len(head+tail))+tail)
			if r := s.ask(t, key, "call", servers(address)); r.status != 200 || !strings.Contains(r.body, want) || r.header.Get("X-Sluice-Mcp-Calls") != "1" {
				t.Errorf("a result of %d bytes = %d %.300s, want %s", size, r.status, r.body, want)
			}
		}
	},
	"JSON values of a tool server's message": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply {
			return s.ask(t, key, "say 2", servers(scriptedTools(t, choosyTool(n), worked)))
		}
		if !strings.HasSuffix(b.beyond, " at discovery") {
			t.Errorf("the page says %q, and what is tried is the discovery", b.beyond)
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"JSON values of the tool lists of one request": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply {
			third := n / 3
			return s.ask(t, key, "say 2", servers(scriptedTools(t, choosyTool(third), worked), scriptedTools(t, choosyTool(third), worked), scriptedTools(t, choosyTool(n-2*third), worked)))
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"tools in the list of a tool server": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply {
			tools := list(n, func(i int64) string { return fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i) })
			return s.ask(t, key, "say 2", fmt.Sprintf(`,"tools":[{"type":"mcp","server_label":"t","server_url":%q,"allowed_tools":["t1"]}]`, scriptedTools(t, `{"tools":[`+tools+`]}`, worked)))
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"events of a tool server's reply":      triedBy("upstream/mcpclient", "TestFailures", "tool error"),
	"tool results of one request":          triedBy("line/toolloop", "TestResultsTogether", "tool error"),
	"being read from tool servers at once": triedBy("upstream/mcpclient", "TestMostHeld", "503 at discovery, else tool error"),

	"tool lists of one request": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		const lists = 4
		around := int64(len(fmt.Sprintf(toolReply, "2", "")))
		ask := func(n int64) reply {
			var all []string
			for i := range int64(lists) {
				size := n / lists
				if i == 0 {
					size += n % lists
				}
				all = append(all, scriptedTools(t, describedTool(size-around), worked))
			}
			return s.ask(t, key, "say 2", servers(all...))
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"message to `/mcp`": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply {
			const head, tail = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chat_completion","arguments":{"model":"m","messages":[{"role":"user","content":"please say 2."}]`, `}}}`
			return s.message(t, key, head+strings.Repeat(" ", int(n)-len(head+tail))+tail)
		}
		within := ask(b.n)
		b.check(t, within, 200, ask(b.n+1))
		if !strings.Contains(within.body, "chat.completion") {
			t.Errorf("within the bound: %.300s, want a completion", within.body)
		}
	},
	"message to `/mcp` without tool arguments": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply {
			const head, tail = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":"`, `"}}}`
			return s.message(t, key, head+strings.Repeat("x", int(n)-len(head+tail))+tail)
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
}

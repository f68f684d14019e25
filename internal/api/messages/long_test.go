package messages

import (
	"fmt"
	"strings"
	"testing"
)

// Long requests take time in proportion to their length: a request of many calls, results, tools or choices of tools is
// read, or refused, within the time that the test has.
func TestLongRequests(t *testing.T) {
	t.Parallel()
	const n = 30_000
	list := func(format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+",", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	calls := list(`{"type":"tool_use","id":"c%d","name":"f","input":{}}`)
	for name, tt := range map[string]struct{ body, fault string }{
		"calls":     {`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[` + calls + `]},{"role":"user","content":[` + list(`{"type":"tool_result","tool_use_id":"c%d"}`) + `]}]}`, ""},
		"texts":     {`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[` + list(`{"type":"text","text":"%d"}`) + `]}]}`, ""},
		"messages":  {`{"model":"m","max_tokens":1,"messages":[` + list(`{"role":"user","content":"%d"}`) + `]}`, ""},
		"toolsets":  {`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[` + list(`{"type":"mcp_toolset","mcp_server_name":"s%d"}`) + `]}`, "tools.8.mcp_toolset: is one too many"},
		"tools":     {`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[` + list(`{"name":"f%d","input_schema":{"type":"object"}}`) + `]}`, "tools.128: is one too many"},
		"odd tools": {`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[` + list(`{"type":"t%d"}`) + `]}`, "tools.128: is one too many"},
		// More than the index of a body holds.
		"many messages": {`{"model":"m","max_tokens":1,"messages":[` + list(`{"role":"user","content":[{"type":"text","text":"%d"}]}`) + `],"metadata":{"user_id":"u"},"temperature":2}`, "temperature: Input should be less than or equal to 1"},
		"nested texts":  {`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[` + list(`{"type":"text","text":"%d"}`) + `]}}]}]}`, ""},
		"escapes":       {`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"` + strings.Repeat(`\\\"`, 1<<20) + `"}]}`, ""},
	} {
		_, err := Parse([]byte(tt.body))
		if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.fault)) {
			t.Errorf("%s: Parse = %v, want %q", name, err, tt.fault)
		}
	}
}

package anthropic

import (
	"testing"

	"sluice/internal/upstream/caching"
)

// TestMarked marks requests in their callers' words. Every other byte stays.
func TestMarked(t *testing.T) {
	t.Parallel()
	const m = `"cache_control":{"type":"ephemeral"}`
	all := caching.Marks{Head: caching.Short, Before: caching.Short, Last: caching.Short}
	for _, tt := range []struct {
		name     string
		marks    caching.Marks
		in, want string
	}{
		{"nothing to mark", caching.Marks{}, ` {"messages": [{"role":"user","content":"Hi"}]}`, ` {"messages": [{"role":"user","content":"Hi"}]}`},
		{
			"texts become blocks", all,
			`{"system" : "Be \u0062rief.", "messages": [ {"role":"user","content":"One"}, {"role":"assistant","content":"1"}, {"content": "Two" , "role":"user"} ]}`,
			`{"system" : [{"type":"text","text":"Be \u0062rief.",` + m + `}], "messages": [ {"role":"user","content":[{"type":"text","text":"One",` + m + `}]}, {"role":"assistant","content":"1"}, {"content": [{"type":"text","text":"Two",` + m + `}] , "role":"user"} ]}`,
		},
		{
			"an hour",
			caching.Marks{Last: caching.Long},
			`{"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}`,
			`{"messages":[{"role":"user","content":[{"cache_control":{"type":"ephemeral","ttl":"1h"},"type":"text","text":"Hi"}]}]}`,
		},
		{
			"tools where there is no system",
			caching.Marks{Head: caching.Short},
			`{"tools":[{"name":"a"},{"name":"b","defer_loading":true}],"system":" ","messages":[]}`,
			`{"tools":[{` + m + `,"name":"a"},{"name":"b","defer_loading":true}],"system":" ","messages":[]}`,
		},
		{
			"system before tools",
			caching.Marks{Head: caching.Short},
			`{"tools":[{"name":"a"}],"system":[{"type":"text","text":"S"}],"messages":[]}`,
			`{"tools":[{"name":"a"}],"system":[{` + m + `,"type":"text","text":"S"}],"messages":[]}`,
		},
		{
			"not thinking, and no blank text",
			caching.Marks{Last: caching.Short},
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"},{"type":"text","text":" "},{"type":"thinking","thinking":"x"}]}]}`,
			`{"messages":[{"role":"user","content":[{` + m + `,"type":"tool_result","tool_use_id":"t"},{"type":"text","text":" "},{"type":"thinking","thinking":"x"}]}]}`,
		},
		{
			"two messages of the user are one turn, and system messages are none", all,
			`{"messages":[{"role":"user","content":"1"},{"role":"user","content":"2"},{"role":"system","content":"s"},{"role":"assistant","content":"a"},{"role":"user","content":"3"},{"role":"system","content":"t"},{"role":"assistant","content":"b"}]}`,
			`{"messages":[{"role":"user","content":"1"},{"role":"user","content":[{"type":"text","text":"2",` + m + `}]},{"role":"system","content":"s"},{"role":"assistant","content":"a"},{"role":"user","content":[{"type":"text","text":"3",` + m + `}]},{"role":"system","content":"t"},{"role":"assistant","content":"b"}]}`,
		},
		{"nothing that can be marked", all, `{"messages":[{"role":"user","content":""}]}`, `{"messages":[{"role":"user","content":""}]}`},
	} {
		if got := string(marked([]byte(tt.in), tt.marks)); got != tt.want {
			t.Errorf("%s: marked = %s, want %s", tt.name, got, tt.want)
		}
	}
}

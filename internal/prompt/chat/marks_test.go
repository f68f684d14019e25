package chat

import (
	"encoding/json"
	"testing"
)

// Marks of the caller's own messages change in place, and nothing around them does.
func TestPatchMarks(t *testing.T) {
	t.Parallel()
	const control, breakpoint = `"cache_control":{"type":"ephemeral","ttl":"1h"}`, `"prompt_cache_breakpoint":{"mode":"explicit"}`
	for _, tt := range []struct {
		name, messages string
		style          MarkStyle
		want           string
	}{
		{"as sent", `[{"role":"user","content":[{"type":"text","text":"a", ` + control + `}]}]`, MarksAsSent, `[{"role":"user","content":[{"type":"text","text":"a", ` + control + `}]}]`},
		{"left out", `[ {"role":"user","content":[ {"type":"text","text":"a" , ` + control + ` } ]} ]`, MarksNone, `[ {"role":"user","content":[ {"type":"text","text":"a" } ]} ]`},
		{"left out in front", `[{"role":"user","content":[{` + control + `,"type":"text","text":"a"}]}]`, MarksNone, `[{"role":"user","content":[{"type":"text","text":"a"}]}]`},
		{"renamed", `[{"role":"user","content":[{"type":"text", ` + control + `,"text":"a"},{"type":"text","text":"b"}]}]`, MarksBreakpoint, `[{"role":"user","content":[{"type":"text", ` + breakpoint + `,"text":"a"},{"type":"text","text":"b"}]}]`},
		{"renamed back", `[{"role":"user","content":[{"type":"text","text":"a",` + breakpoint + `}]}]`, MarksControl, `[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]`},
		{"a time of the other dialect", `[{"role":"user","content":[{"type":"text","text":"a","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}}]}]`, MarksControl, `[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]`},
		{"a time of its own", `[{"role":"user","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"},"content":"a"}]`, MarksBreakpoint, `[{"role":"user","content":[{"type":"text","text":"a","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}}]}]`},
		{"right already", `[{"role":"user","content":[{"type":"text","text":"a","prompt_cache_breakpoint":{"mode":"explicit", "x":1}}]}]`, MarksBreakpoint, `[{"role":"user","content":[{"type":"text","text":"a","prompt_cache_breakpoint":{"mode":"explicit", "x":1}}]}]`},
		{"of a message", `[{"role":"user",` + control + `,"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`, MarksBreakpoint, `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b",` + breakpoint + `}]}]`},
		{"of a text", `[{"role":"user","content":"a\"b",` + control + `}]`, MarksControl, `[{"role":"user","content":[{"type":"text","text":"a\"b",` + control + `}]}]`},
		{"of a message whose last part has one", `[{` + control + `,"role":"user","content":[{"type":"text","text":"a",` + breakpoint + `}]}]`, MarksBreakpoint, `[{"role":"user","content":[{"type":"text","text":"a",` + breakpoint + `}]}]`},
		{"no mark", `[{"role":"user","content":"cache_control"},{"role":"user","content":[{"type":"text","text":"a","cache_control":null}]}]`, MarksNone, `[{"role":"user","content":"cache_control"},{"role":"user","content":[{"type":"text","text":"a","cache_control":null}]}]`},
		{"beside other edits", `[{"role":"developer","content":"Go",` + control + `},{"tool_calls":[],` + control + `,"role":"assistant","content":"a"},{"role":"user","content":"b"}]`, MarksNone, `[{"role":"system","content":"Go"},{"role":"assistant","content":"a"},{"role":"user","content":"b"}]`},
	} {
		req, err := Parse([]byte(`{"model":"m","messages":` + tt.messages + `}`))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := string(req.AppendUpstream(nil, Patch{Marks: tt.style, SystemRole: true}))
		if want := `{"model":"m","messages":` + tt.want + `}`; got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s: AppendUpstream =\n%s, want\n%s", tt.name, got, want)
		}
	}
}

// Edits of members leave the rest of a message as it is.
func TestPatchEdits(t *testing.T) {
	t.Parallel()
	const body = `{"model":"m","messages":[ {"role":"user", "content":"<a>"},
		{ "name":"n", "role":"assistant","content":"b" } ]}`
	req, err := Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		edits []MessageEdit
		want  string
	}{
		{nil, body},
		{[]MessageEdit{{1, "content", []byte(`"c"`)}}, `{"model":"m","messages":[ {"role":"user", "content":"<a>"},
		{ "name":"n", "role":"assistant","content":"c" } ]}`},
		{[]MessageEdit{{0, "more", []byte(`1`)}, {1, "name", nil}, {1, "absent", nil}}, `{"model":"m","messages":[ {"role":"user", "content":"<a>","more":1},
		{ "role":"assistant","content":"b" } ]}`},
	} {
		if got := string(req.AppendUpstream(nil, Patch{Edits: tt.edits})); !json.Valid([]byte(got)) || normal(got) != normal(tt.want) {
			t.Errorf("AppendUpstream with %v =\n%s, want\n%s", tt.edits, got, tt.want)
		}
	}
}

// normal leaves out a space that stands where a member was.
func normal(s string) string {
	var out []byte
	for i := range len(s) {
		if s[i] != ' ' {
			out = append(out, s[i])
		}
	}
	return string(out)
}

// Tools that are written anew stand in the order of their names, unless the caller has marked one.
func TestListedTools(t *testing.T) {
	t.Parallel()
	for tools, want := range map[string]string{
		`{"type":"function","function":{"name":"b"}},{"type":"function","function":{"name":"a"}},{"type":"custom","custom":{"name":"aa"}}`:         "1 2 0 ",
		`{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}`:                                                  "0 1 ",
		`{"type":"function","function":{"name":"b"},"cache_control":{"type":"ephemeral"}},{"type":"function","function":{"name":"a"}}`:             "0 1 ",
		`{"type":"function","function":{"name":"b"}},{"type":"mcp","server_url":"https://a.example/"},{"type":"function","function":{"name":"a"}}`: "0 1 2 ",
	} {
		req, err := Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[` + tools + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i := range req.ListedTools() {
			got += string(rune('0'+i)) + " "
		}
		if got != want {
			t.Errorf("ListedTools of %s = %s, want %s", tools, got, want)
		}
	}
}

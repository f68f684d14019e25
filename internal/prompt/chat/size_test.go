package chat

import "testing"

func TestSize(t *testing.T) {
	t.Parallel()
	const user = `{"role":"user","content":"1234567"}`
	for _, tt := range []struct {
		name, body    string
		bytes, images int
		bound         int
	}{
		{"text", `"messages":[` + user + `]`, 7, 0, 7 + 16 + 8},
		{"escapes count once unescaped", `"messages":[{"role":"user","content":"\n\u00e9\ud83d\ude00é"}]`, 9, 0, 9 + 16 + 8},
		{"two messages with names", `"messages":[{"role":"user","content":"12","name":"abc"},{"role":"user","content":""}]`, 5, 0, 5 + 16 + 2*8},
		{"parts", `"messages":[{"role":"user","content":[{"type":"text","text":"12"},{"type":"text","text":"345"}]}]`, 5, 0, 5 + 16 + 8},
		{
			"image", `"messages":[{"role":"user","content":[{"type":"text","text":"12"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAAAAAA"}}]}]`,
			2, 1, 2 + 16 + 8 + 1024,
		},
		{
			"calls", `"messages":[{"role":"assistant","tool_calls":[{"id":"ab","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"ab","content":"123"}]`,
			2 + 1 + 7 + 2 + 3, 0, 15 + 16 + 2*8 + 16,
		},
		{"reasoning", `"messages":[{"role":"assistant","content":"1","reasoning_content":"234","refusal":"5"}]`, 5, 0, 5 + 16 + 8},
		{"function", `"messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f"}}]`, 7 + 12, 0, 19 + 16 + 8 + 32},
		{"function before its type", `"messages":[` + user + `],"tools":[{"function":{"name":"f"},"type":"function"}]`, 7 + 12, 0, 19 + 16 + 8 + 32},
		{"server", `"messages":[` + user + `],"tools":[{"type":"mcp","server_url":"https://example.com"}]`, 7, 0, 7 + 16 + 8 + 32},
		{"schema", `"messages":[` + user + `],"response_format":{"type":"json_schema","json_schema":{"name":"a"}}`, 7 + 12, 0, 19 + 16 + 8},
		{"other fields", `"messages":[` + user + `],"user":"abc","metadata":{"a":"b"},"stop":"x"`, 7, 0, 7 + 16 + 8},
	} {
		r, err := Parse([]byte(`{"model":"m",` + tt.body + `}`))
		if err != nil {
			t.Errorf("%s: Parse = %v, want success", tt.name, err)
			continue
		}
		if r.PromptBytes() != tt.bytes || r.Images() != tt.images || r.TokenBound() != tt.bound {
			t.Errorf("%s: PromptBytes, Images, TokenBound = %d, %d, %d, want %d, %d, %d",
				tt.name, r.PromptBytes(), r.Images(), r.TokenBound(), tt.bytes, tt.images, tt.bound)
		}
	}
}

package jsonscan_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"sluice/internal/kit/jsonscan"
)

// FuzzSkip compares the scanner with encoding/json. What it accepts is JSON. What it refuses is not JSON, or one of
// the few things that it leaves to others: bytes that are not UTF-8, half a surrogate pair, unusual keys, depth.
func FuzzSkip(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-2.5e+3,"\u00e9\ud83d\ude00",true,false,null,{}]}`, `[01]`, `"\ud800"`, "\"\xff\"", ` [ ] `, `{"a":1,}`, `nul`, `-`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		const depth = 64
		c := jsonscan.Cursor{Body: body}
		got := c.Skip(depth) && c.End()
		if got && !json.Valid(body) {
			t.Errorf("Skip(%q) succeeds, want a refusal: it is not JSON", body)
		}
		if !got && json.Valid(body) && utf8.Valid(body) && plain(body) {
			t.Errorf("Skip(%q) = false, want success", body)
		}
	})
}

// plain reports whether valid JSON has nothing that Skip may refuse: no escape, only keys of ASCII, few levels.
func plain(body []byte) bool {
	depth := 0
	for _, c := range body {
		if c == '\\' || c >= utf8.RuneSelf {
			return false
		}
		if c == '[' || c == '{' {
			depth++
		}
	}
	return depth < 64
}

// FuzzString compares String and Unquote with encoding/json, and AppendQuoted with Unquote.
func FuzzString(f *testing.F) {
	for _, seed := range []string{`"a"`, `"\u00e9\ud83d\ude00\n\/"`, `"\ud800"`, "\"\xff\"", "\"a\x1f\"", `"`, `"long enough for two steps of eight"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 || body[0] != '"' {
			body = append([]byte{'"'}, body...)
		}
		end, size, problem := jsonscan.String(body, 0)
		var want string
		valid := json.Unmarshal(body[:max(end, 0)], &want) == nil && utf8.Valid(body[:end])
		if problem != jsonscan.OK {
			if end < 0 || end >= len(body) {
				t.Fatalf("String(%q) = problem %d at %d, want a place in it", body, problem, end)
			}
			return
		}
		got := jsonscan.Unquote(body[:end])
		if !valid || got != want || len(got) != size {
			t.Errorf("String(%q) = %d bytes %q, want %q", body, size, got, want)
		}
		if !jsonscan.Equal(body[:end], want) {
			t.Errorf("Equal(%q, %q) = false, want true", body[:end], want)
		}
		again := jsonscan.AppendQuoted(nil, got)
		if jsonscan.Unquote(again) != got || !json.Valid(again) {
			t.Errorf("AppendQuoted(%q) = %q, which does not spell it", got, again)
		}
		if inside := jsonscan.AppendInside(nil, body[1:end-1]); string(inside) != string(again[1:len(again)-1]) {
			t.Errorf("AppendInside(%q) = %q, and AppendQuoted spells it %q", body[1:end-1], inside, again)
		}
	})
}

package chat

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
)

// scan reads a body that holds one JSON value of any type.
func scan(body []byte) *scanner {
	s := &scanner{body: body}
	s.skip()
	if s.peek(); s.pos < len(body) {
		s.expected("the end of the body")
	}
	return s
}

func TestScanRefusesBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, want string }{
		{"\xef\xbb\xbf{}", "Malformed JSON at byte offset 0 (line 1, column 1): the body begins with a byte order mark; send UTF-8 without one"},
		{"\xff\xfe{\x00}\x00", "Malformed JSON at byte offset 0 (line 1, column 1): expected a value, found byte 0xff"},
		{"{\"a\x00\":1}", `Malformed JSON at byte offset 3 (line 1, column 4): a control character must be escaped in a string; write \u0000`},
		{"{\"a\x1f\":1}", `Malformed JSON at byte offset 3 (line 1, column 4): a control character must be escaped in a string; write \u001f`},
		{"{\"a\r\":1}", `Malformed JSON at byte offset 3 (line 1, column 4): a control character must be escaped in a string; write \r`},
		{"{\"a\xff\":1}", "Malformed JSON at byte offset 3 (line 1, column 4): byte 0xff is not valid UTF-8"},
		{"{\"a\":\"\xc3\"}", "Malformed JSON at byte offset 6 (line 1, column 7): byte 0xc3 is not valid UTF-8"},
		{"{\"a\":\"long enough\xe2\x82\"}", "Malformed JSON at byte offset 17 (line 1, column 18): byte 0xe2 is not valid UTF-8"},
		{"{\"a\":\"\xed\xa0\x80\"}", "Malformed JSON at byte offset 6 (line 1, column 7): byte 0xed is not valid UTF-8"},
		{"{\"é\":\"\xc0\x80\"}", "Malformed JSON at byte offset 7 (line 1, column 7): byte 0xc0 is not valid UTF-8"},
		{"{\"a\":\"\xf5\x80\x80\x80\"}", "Malformed JSON at byte offset 6 (line 1, column 7): byte 0xf5 is not valid UTF-8"},
		{"{\"a\":\x80}", "Malformed JSON at byte offset 5 (line 1, column 6): expected a value, found byte 0x80"},
		{"{\"a\":é}", `Malformed JSON at byte offset 5 (line 1, column 6): expected a value, found "é"`},
		{"{\"a\":1\x00}", `Malformed JSON at byte offset 6 (line 1, column 7): expected a comma or "}", found byte 0x00`},
		{"{\u00a0}", `Malformed JSON at byte offset 1 (line 1, column 2): expected a field name in double quotes or "}", found byte 0xc2`},
		{"{}\x00", "Malformed JSON at byte offset 2 (line 1, column 3): expected the end of the body, found byte 0x00"},
	} {
		_, err := Parse([]byte(tt.body))
		f := fault.From(err)
		if f.Kind != fault.Invalid || f.Message != tt.want || f.Param != "" {
			t.Errorf("Parse(%q) = %v, param %q, %s\nwant %s", tt.body, f.Kind, f.Param, f.Message, tt.want)
		}
	}
}

// The scanner reads strings in steps of eight bytes, so every length and every position is tested.
func TestQuotedAtEveryPlace(t *testing.T) {
	t.Parallel()
	for length := range 40 {
		for at := range length {
			for _, tt := range []struct {
				piece string
				size  int // once unescaped; -1: refused
			}{
				{"é", 2},
				{`\n`, 1},
				{`\"`, 1},
				{`\u00e9`, 2},
				{`\ud83d\ude00`, 4},
				{"😀", 4},
				{"\x7f", 1},
				{"\xff", -1},
				{"\x1f", -1},
				{"\n", -1},
				{`\q`, -1},
				{`\ud83d`, -1},
			} {
				inner := strings.Repeat("x", at) + tt.piece + strings.Repeat("y", length-at-1)
				s := &scanner{body: []byte(`"` + inner + `"é`)}
				q, ok := s.quoted()
				if ok != (tt.size >= 0) {
					t.Fatalf("quoted(%q) = %v, want %v", s.body, ok, tt.size >= 0)
				}
				if !ok {
					continue
				}
				if q.size != length-1+tt.size || q.to != len(inner)+2 || s.pos != q.to || len(s.unquoted(q)) != q.size {
					t.Fatalf("quoted(%q) = %+v at %d, want size %d", s.body, q, s.pos, length-1+tt.size)
				}
			}
		}
	}
}

func TestDepth(t *testing.T) {
	t.Parallel()
	for _, pair := range []struct{ open, close string }{{"[", "]"}, {`{"a":`, "}"}} {
		nest := func(n int) []byte {
			inner := ""
			if pair.open != "[" {
				inner = "1"
			}
			return []byte(strings.Repeat(pair.open, n) + inner + strings.Repeat(pair.close, n))
		}
		if s := scan(nest(maxDepth)); s.failed() {
			t.Errorf("scan of %d × %q = %v, want success", maxDepth, pair.open, s.fault)
		}
		s := scan(nest(maxDepth + 1))
		if !s.failed() || !strings.HasSuffix(s.fault.Message, "is nested more than 128 levels deep") {
			t.Errorf("scan of %d × %q = %v, want a refusal", maxDepth+1, pair.open, s.fault)
		} else if n := len(s.fault.Param); n > maxPath+50 {
			t.Errorf("scan of %d × %q has a param of %d bytes, want a short one", maxDepth+1, pair.open, n)
		}
	}
}

// A hostile body costs no more comparisons than a normal one of its size. If it is refused, it is refused
// as soon as the problem is reached.
func TestKeysAreLinear(t *testing.T) {
	t.Parallel()
	object := func(n int, key func(i int) string) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%s:0", key(i))
		}
		b.WriteByte('}')
		return b.String()
	}
	plain := func(i int) string { return fmt.Sprintf(`"key%d"`, i) }
	escaped := func(i int) string { return fmt.Sprintf(`"\u006bey%d"`, i) }
	alike := func(i int) string { return fmt.Sprintf(`"%s%08d"`, strings.Repeat("k", 500), i) }
	for _, tt := range []struct {
		name string
		body string
		keys int
	}{
		{"one object", object(60_000, plain), 60_000},
		{"escaped keys", object(60_000, escaped), 60_000},
		{"long keys", object(4_000, alike), 4_000},
		{"many small objects", "[" + strings.Repeat(object(smallObject, plain)+",", 2_000) + "0]", 2_000 * smallObject},
		{"many large objects", "[" + strings.Repeat(object(smallObject+1, plain)+",", 2_000) + "0]", 2_000 * (smallObject + 1)},
		{"large in large", strings.Repeat(strings.TrimSuffix(object(500, plain), "}")+`,"in":`, 100) + "0" + strings.Repeat("}", 100), 100 * 501},
	} {
		s := scan([]byte(tt.body))
		if s.failed() {
			t.Errorf("%s: scan = %v, want success", tt.name, s.fault)
			continue
		}
		// A small object compares each key with those before it, 7.5 on average. A large one compares hashes.
		if limit := 12 * tt.keys; s.seen.probes > limit {
			t.Errorf("%s: scan made %d comparisons for %d keys, want at most %d", tt.name, s.seen.probes, tt.keys, limit)
		}
		if len(s.seen.keys) != 0 || len(s.seen.decoded) != 0 || len(s.seen.large) != 0 {
			t.Errorf("%s: scan left keys behind", tt.name)
		}
	}

	s := scan([]byte(object(maxOpenKeys+1, plain)))
	want := `key65536 is one field too many: an object and those around it may hold at most 65536`
	if !s.failed() || s.fault.Message != want {
		t.Errorf("scan of %d keys = %v, want %q", maxOpenKeys+1, s.fault, want)
	}
}

// The second of two equal keys is found wherever they are and however they are written. Equal keys of
// different objects are not reported.
func TestKeyTwice(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 15, 16, 17, 18, 33, 64, 65, 200} {
		for _, pair := range [][2]int{{0, n - 1}, {0, 1}, {n - 2, n - 1}, {n / 2, n - 1}} {
			for _, spelling := range []string{`"k%d"`, `"\u006b%d"`} {
				if pair[0] == pair[1] {
					continue
				}
				var b strings.Builder
				for i := range n {
					if i > 0 {
						b.WriteByte(',')
					}
					if i == pair[1] {
						fmt.Fprintf(&b, spelling, pair[0])
					} else {
						fmt.Fprintf(&b, `"k%d"`, i)
					}
					// An object of the same keys in between.
					b.WriteString(`:{"k0":0,"k1":1,"k2":{"k0":0}}`)
				}
				s := scan([]byte("{" + b.String() + "}"))
				want := fmt.Sprintf("k%d", pair[0])
				if !s.failed() || s.fault.Param != want {
					t.Errorf("scan of %d keys with %d = %d: %v, want a fault at %s", n, pair[0], pair[1], s.fault, want)
				}
				if s := scan([]byte("{" + strings.Replace(b.String(), fmt.Sprintf(spelling, pair[0]), `"other"`, 1) + "}")); s.failed() {
					t.Errorf("scan of %d different keys = %v, want success", n, s.fault)
				}
			}
		}
	}
}

// No body makes Parse slow: with a quadratic step, bodies of this size would exceed the timeout of the
// test.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	fill := func(head, piece, tail string) []byte {
		return []byte(head + strings.Repeat(piece, (size-len(head)-len(tail))/len(piece)) + tail)
	}
	const start = `{"model":"m","messages":[{"role":"user","content":"hi"}],`
	for _, tt := range []struct {
		name string
		body []byte
		want string // the end of the message; empty: accepted
	}{
		{"brackets", fill("", "[", ""), "The body must be a JSON object; got an array"},
		{"objects", fill("", `{"a":`, ""), "a.a is nested more than 128 levels deep"},
		{"brackets in a field", fill(start+`"x":`, "[", ""), "x[0] is nested more than 128 levels deep"},
		{"white space", fill("", " ", ""), "is empty; send a JSON object with model and messages"},
		{"line breaks", fill("", "\n", "x"), `expected a value, found "x"`},
		{"open string", fill(`{"a":"`, "é", ""), "this string has no closing quote"},
		{"invalid UTF-8 at the end", fill(`{"a":"`, "é", "\xff\"}"), "byte 0xff is not valid UTF-8"},
		{"escapes", fill(start+`"x":"`, `\u00e9`, `"}`), ""},
		{"lone surrogate at the end", fill(`{"a":"`, `\ud83d\ude00`, `\ud83d"}`), "the second half must follow it"},
		{"digits", fill(start+`"seed":`, "9", "}"), "999…"},
		{"zeros", fill(start+`"seed":0.`, "0", "}"), "000…"},
		{"one long key twice", []byte(`{"` + strings.Repeat("k", size/2) + `":1,"` + strings.Repeat("k", size/2) + `":2}`), "is given twice in the same object; keep one of them"},
		{"empty objects", fill(start+`"x":[{}`, ",{}", "]}"), ""},
		{"numbers", fill(start+`"x":[1`, ",1e5", "]}"), ""},
		{"empty messages", fill(`{"model":"m","messages":[{}`, ",{}", "]}"), `messages[0].role is required: "system", "developer", "user", "assistant" or "tool"`},
		{"many messages", fill(`{"model":"m","messages":[{"role":"user","content":""}`, `,{"role":"user","content":""}`, "]}"), "messages holds too much: at most 100000 messages, content parts and tool calls together"},
		{"many parts", fill(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":""}`, `,{"type":"text","text":""}`, "]}]}"), "messages holds too much: at most 100000 messages, content parts and tool calls together"},
		{"small objects", fill(start+`"x":[0`, `,{"a":1,"b":2,"c":3}`, "]}"), ""},
		{"message text", fill(`{"model":"m","messages":[{"role":"user","content":"`, "All work and no play. ", `"}]}`), ""},
	} {
		_, err := Parse(tt.body)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: Parse = %v, want success", tt.name, err)
		case tt.want != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.want)):
			t.Errorf("%s: Parse = %v, want an error that ends with %q", tt.name, err, tt.want)
		case err != nil && len(err.Error()) > 400:
			t.Errorf("%s: Parse = a message of %d bytes, want a short one", tt.name, len(err.Error()))
		}
	}
}

// Call ids are found with a map when there are many.
func TestManyToolCalls(t *testing.T) {
	t.Parallel()
	const n = 20_000
	var calls, answers strings.Builder
	for i := range n {
		fmt.Fprintf(&calls, `,{"id":"call%d","function":{"name":"f","arguments":""}}`, i)
		fmt.Fprintf(&answers, `,{"role":"tool","tool_call_id":"call%d","content":""}`, n-1-i)
	}
	body := `{"model":"m","messages":[{"role":"assistant","tool_calls":[` + calls.String()[1:] + `]}` + answers.String() + `]}`
	r, err := Parse([]byte(body))
	if err != nil {
		t.Fatalf("Parse = %v, want success", err)
	}
	if len(r.Messages) != n+1 || len(r.Messages[0].ToolCalls) != n {
		t.Errorf("Parse = %d messages, %d calls, want %d, %d", len(r.Messages), len(r.Messages[0].ToolCalls), n+1, n)
	}
	if r.Messages[0].Role != RoleAssistant || !r.Messages[0].Content.IsNull() {
		t.Errorf("Parse = %+v, want an assistant message without content", r.Messages[0].Role)
	}
}

package jsonscan_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/internal/kit/jsonscan"
)

func TestString(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in        string
		end, size int
		problem   jsonscan.Problem
	}{
		{`""`, 2, 0, jsonscan.OK},
		{`"a" "b"`, 3, 1, jsonscan.OK},
		{`"\u00e9\n"`, 10, 3, jsonscan.OK},
		{`"\ud83d\ude00"`, 14, 4, jsonscan.OK},
		{`"a`, 0, 0, jsonscan.Unclosed},
		{`"a\`, 2, 0, jsonscan.EscapeCut},
		{`"a\"`, 0, 0, jsonscan.Unclosed},
		{"\"ab\n\"", 3, 0, jsonscan.Control},
		{"\"a\xffb\"", 2, 0, jsonscan.NotUTF8},
		{"\"a\xff", 0, 0, jsonscan.Unclosed}, // UTF-8 is checked last
		{`"\q"`, 1, 0, jsonscan.EscapeUnknown},
		{`"\u00"`, 1, 0, jsonscan.EscapeDigits},
		{`"a\ude00"`, 2, 0, jsonscan.LoneLow},
		{`"a\ud83d\n"`, 2, 0, jsonscan.LoneHigh},
		{`"a\ud83d\u0041"`, 2, 0, jsonscan.LoneHigh},
	} {
		end, size, problem := jsonscan.String([]byte(tt.in), 0)
		if end != tt.end || size != tt.size || problem != tt.problem {
			t.Errorf("String(%q) = %d, %d, %d, want %d, %d, %d", tt.in, end, size, problem, tt.end, tt.size, tt.problem)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in          string
		end, digits int
		exponent    bool
		problem     jsonscan.Problem
	}{
		{"0", 1, 1, false, jsonscan.OK},
		{"-12.50,", 6, 4, false, jsonscan.OK},
		{"1e5", 3, 2, true, jsonscan.OK},
		{"1.5E-07]", 7, 4, true, jsonscan.OK},
		{"", 0, 0, false, jsonscan.NoDigit},
		{"-x", 1, 0, false, jsonscan.NoDigit},
		{"-01", 0, 0, false, jsonscan.LeadingZero},
		{"1.", 2, 0, false, jsonscan.NoFractionDigit},
		{"1.e", 2, 0, false, jsonscan.NoFractionDigit},
		{"1e+", 3, 0, true, jsonscan.NoExponentDigit},
	} {
		end, digits, exponent, problem := jsonscan.Number([]byte(tt.in), 0)
		if end != tt.end || digits != tt.digits || exponent != tt.exponent || problem != tt.problem {
			t.Errorf("Number(%q) = %d, %d, %t, %d, want %d, %d, %t, %d", tt.in, end, digits, exponent, problem, tt.end, tt.digits, tt.exponent, tt.problem)
		}
	}
}

func TestUint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want int // -1: refused
	}{
		{"0", 0},
		{" 7,", 7},
		{"123}", 123},
		{"", -1},
		{"-1", -1},
		{"01", -1},
		{"1234", -1},
		{"1.0", -1},
		{"1e2", -1},
		{"x", -1},
	} {
		c := jsonscan.Cursor{Body: []byte(tt.in)}
		if got, ok := c.Uint(3); ok != (tt.want >= 0) || ok && got != tt.want {
			t.Errorf("Uint(%q) = %d, %t, want %d", tt.in, got, ok, tt.want)
		}
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in, keys string // keys with a space behind each; "no": refused
	}{
		{`{}`, ""},
		{` { "a" : 1 , "b":[{}] } `, "a b "},
		{`{"a":1,}`, "no"},
		{`{"a" 1}`, "no"},
		{`{"a":}`, "no"},
		{`{"\u0061":1}`, "no"}, // could be a
		{`{"é":1}`, "no"},
		{`[]`, "no"},
	} {
		c := jsonscan.Cursor{Body: []byte(tt.in)}
		keys := ""
		if !c.Members(func(key []byte) bool { keys += string(key) + " "; return c.Skip(8) }) || !c.End() {
			keys = "no"
		}
		if keys != tt.keys {
			t.Errorf("Members(%q) = %q, want %q", tt.in, keys, tt.keys)
		}
	}
}

func TestSkipIsBounded(t *testing.T) {
	t.Parallel()
	for depth, want := range []bool{false, false, true, true} {
		c := jsonscan.Cursor{Body: []byte(`[{"a":1}]`)}
		if got := c.Skip(depth); got != want {
			t.Errorf("Skip(%d) = %t, want %t", depth, got, want)
		}
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		raw, text string
		want      bool
	}{
		{`"stop"`, "stop", true},
		{`"st\u006fp"`, "stop", true},
		{`"st\u006f"`, "stop", false},
		{`"st\u006fps"`, "stop", false},
		{`"\ud83d\ude00"`, "😀", true},
		{`""`, "", true},
	} {
		if got := jsonscan.Equal([]byte(tt.raw), tt.text); got != tt.want {
			t.Errorf("Equal(%s, %q) = %t, want %t", tt.raw, tt.text, got, tt.want)
		}
	}
}

// A special byte is found wherever it stands in a long string: String reads those in larger steps.
func TestLongStrings(t *testing.T) {
	t.Parallel()
	const size = 9000
	text := strings.Repeat("abcdefghijklmnopqrstuvwxyz0123456789+/", size/38+1)[:size]
	for at := 0; at < size; at += 1 + at%7 {
		for special, want := range map[string]jsonscan.Problem{`"`: jsonscan.OK, "\\x": jsonscan.EscapeUnknown, "\x01": jsonscan.Control, "\xff": jsonscan.NotUTF8, "\\n": jsonscan.OK, "é": jsonscan.OK} {
			doc := []byte(`"` + text[:at] + special + text[at:] + `"`)
			end, n, p := jsonscan.String(doc, 0)
			wantEnd, wantSize := len(doc), size+1
			switch {
			case special == `"`:
				wantEnd, wantSize = at+2, at
			case special == "é":
				wantSize = size + 2
			case want != jsonscan.OK:
				wantEnd, wantSize = at+1, 0
			}
			if end != wantEnd || n != wantSize || p != want {
				t.Fatalf("%q behind %d bytes: %d, %d, %v, want %d, %d, %v", special, at, end, n, p, wantEnd, wantSize, want)
			}
		}
	}
}

// AppendQuoted copies in runs what it would spell character by character.
func TestAppendQuoted(t *testing.T) {
	t.Parallel()
	for _, special := range []string{"", `"`, `\`, "\n", "\x00", "\x1f", "\x7f", "é", "河", "😀", "\u2028", "\xff", "\xe6\xb2", "\ufffd", `\"`, "\"é\x01\xffé"} {
		for before := range 18 {
			for after := range 10 {
				text := strings.Repeat("a", before) + special + strings.Repeat("z", after)
				want := []byte{'x', '"'}
				for _, r := range text {
					switch {
					case r == '"' || r == '\\':
						want = append(want, '\\', byte(r))
					case r < ' ':
						want = append(want, jsonscan.Escaped(byte(r))...)
					default:
						want = utf8.AppendRune(want, r)
					}
				}
				want = append(want, '"')
				if got := jsonscan.AppendQuoted([]byte{'x'}, text); string(got) != string(want) {
					t.Errorf("AppendQuoted(%q) = %q, want %q", text, got, want)
				}
			}
		}
	}
}

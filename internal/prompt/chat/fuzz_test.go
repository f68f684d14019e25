package chat

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/internal/kit/fault"
)

// FuzzScan compares the scanner with encoding/json: it must accept exactly the values that encoding/json
// accepts and legal allows.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-2.5e+3,"\u00e9\ud83d\ude00",true,false,null,{}]}`, `[01]`, `"\ud800"`, `{"a":1,"\u0061":2}`, "\"\xff\"", `1e999`, ` [ ] `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := scan(body)
		if want := legal(body); s.failed() != (want != nil) {
			t.Errorf("scan(%q) = %v, want %v", body, s.fault, want)
		}
		checkFault(t, s.fault)
	})
}

// FuzzParse compares Parse with encoding/json: a body that Parse accepts is legal, and both decode it to
// the same values.
func FuzzParse(f *testing.F) {
	for _, g := range goodBodies {
		f.Add([]byte(g.body))
	}
	_, cases := readBad(f)
	for _, c := range cases {
		f.Add([]byte(c.body()))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Parse(body)
		if err != nil {
			refusal, ok := errors.AsType[*fault.Fault](err)
			if !ok || refusal.Kind != fault.Invalid {
				t.Fatalf("Parse(%q) = %v, want an invalid request", body, err)
			}
			checkFault(t, refusal)
			return
		}
		if err := legal(body); err != nil {
			t.Fatalf("Parse(%q) succeeds, want %v", body, err)
		}
		checkDecoded(t, r)
	})
}

// checkFault checks that a message is readable text and repeats little of the caller's input.
func checkFault(t *testing.T, f *fault.Fault) {
	if f == nil {
		return
	}
	if len(f.Message) > 800 || len(f.Param) > 400 || !utf8.ValidString(f.Message) || strings.ContainsAny(f.Message, "\n\r\x00") {
		t.Errorf("fault %q at %q is not fit to be read", f.Message, f.Param)
	}
	if f.Param != "" && !strings.HasPrefix(f.Message, f.Param+" ") {
		t.Errorf("fault %q does not begin with its param %q", f.Message, f.Param)
	}
}

// FuzzAppendUpstream applies the same patch to a request and to its decoded form, and compares them.
func FuzzAppendUpstream(f *testing.F) {
	for i, g := range goodBodies {
		f.Add([]byte(g.body), "other", "user tools stream_options", uint8(i))
	}
	f.Fuzz(func(t *testing.T, body []byte, model, drop string, flags uint8) {
		r, err := Parse(body)
		if err != nil {
			return
		}
		p := Patch{Model: model, IncludeUsage: flags&1 != 0, SystemRole: flags&2 != 0, Drop: strings.Fields(drop)}
		if flags&4 != 0 {
			p.Set = []Setting{{"stop", []byte(`["x"]`)}, {"temperature", []byte("1.50")}}
		}
		checkPatch(t, r, p)
	})
}

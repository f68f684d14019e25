package messages

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/kit/fault"
)

// badRequest is one case of testdata/bad.txtar.
type badRequest struct{ name, input, message string }

// body returns the request that the input of a case stands for.
func (c badRequest) body() string {
	const head = `{"model":"m","max_tokens":2000,`
	const hi = `{"role":"user","content":"hi"}`
	const called = `{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}`
	kind, rest, _ := strings.Cut(c.input, ": ")
	switch kind {
	case "body":
		return rest
	case "with":
		return head + `"messages":[` + hi + `],` + rest + `}`
	case "messages":
		return head + `"messages":[` + rest + `]}`
	case "user":
		return head + `"messages":[{"role":"user","content":[` + rest + `]}]}`
	case "assistant":
		return head + `"messages":[` + hi + `,{"role":"assistant","content":[` + rest + `]}]}`
	case "result":
		return head + `"messages":[` + called + `,{"role":"user","content":[` + rest + `]}]}`
	case "tools":
		return head + `"messages":[` + hi + `],"tools":[` + rest + `]}`
	}
	panic("unknown kind of input in case " + c.name)
}

func readBad(t testing.TB) (comment []byte, cases []badRequest) {
	t.Helper()
	data, err := os.ReadFile("testdata/bad.txtar")
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(data)
	for _, f := range archive.Files {
		input, message, ok := bytes.Cut(f.Data, []byte("\nmessage:"))
		if !ok {
			t.Fatalf("case %q lacks input or message", f.Name)
		}
		cases = append(cases, badRequest{f.Name, string(input), strings.TrimSpace(string(message))})
	}
	return archive.Comment, cases
}

// TestParseRefuses reads testdata/bad.txtar: requests that are refused, and what their senders read.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	comment, cases := readBad(t)
	if len(cases) < 100 {
		t.Fatalf("testdata/bad.txtar has %d cases, want at least 100", len(cases))
	}
	out := &txtar.Archive{Comment: comment}
	for i := range cases {
		c := &cases[i]
		r, err := Parse([]byte(c.body()))
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || r != nil {
			t.Errorf("%s: Parse = %v, %v, want a fault", c.name, r, err)
			continue
		}
		if *update {
			c.message = f.Message
		}
		if f.Kind != fault.Invalid || f.Message != c.message {
			t.Errorf("%s: Parse = %v\n\t%s\nwant\n\t%s", c.name, f.Kind, f.Message, c.message)
		}
		checkFault(t, f)
		out.Files = append(out.Files, txtar.File{Name: c.name, Data: []byte(c.input + "\nmessage: " + c.message + "\n")})
	}
	if *update {
		if err := os.WriteFile("testdata/bad.txtar", txtar.Format(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// checkFault checks that a message is readable text that begins with the path, and repeats little of the caller's input.
func checkFault(t *testing.T, f *fault.Fault) {
	t.Helper()
	if len(f.Message) > 800 || !utf8.ValidString(f.Message) || strings.ContainsAny(f.Message, "\n\r\x00") {
		t.Errorf("the message %q is not fit to be read", f.Message)
	}
	if f.Param != "" && !strings.HasPrefix(f.Message, f.Param+": ") {
		t.Errorf("the message %q does not begin with the path %q", f.Message, f.Param)
	}
}

// Counting needs no max_tokens, and otherwise refuses the same.
func TestParseCount(t *testing.T) {
	t.Parallel()
	const hi = `"model":"m","messages":[{"role":"user","content":"hi"}]`
	if _, err := ParseCount([]byte(`{` + hi + `}`)); err != nil {
		t.Errorf("ParseCount without max_tokens = %v", err)
	}
	if _, err := ParseCount([]byte(`{` + hi + `,"stream":true,"max_tokens":5,"thinking":{"type":"enabled","budget_tokens":9999}}`)); err != nil {
		t.Errorf("ParseCount of a whole request = %v", err)
	}
	if _, err := ParseCount([]byte(`{"model":"m"}`)); err == nil || err.Error() != "messages: Field required" {
		t.Errorf("ParseCount without messages = %v", err)
	}
}

package chat

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/kit/fault"
)

var update = flag.Bool("update", false, "write testdata/bad.txtar anew")

// badRequest is one case of testdata/bad.txtar.
type badRequest struct {
	name, input, param, message string
}

// body returns the request that the case's input stands for.
func (c badRequest) body() string {
	const hi = `{"role":"user","content":"hi"}`
	kind, rest, _ := strings.Cut(c.input, ": ")
	switch kind {
	case "body":
		return rest
	case "with":
		return `{"model":"m","messages":[` + hi + `],` + rest + `}`
	case "messages":
		return `{"model":"m","messages":[` + rest + `]}`
	case "tools":
		return `{"model":"m","messages":[` + hi + `],"tools":[` + rest + `]}`
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
		input, rest, ok := bytes.Cut(f.Data, []byte("\nparam:"))
		param, message, ok2 := bytes.Cut(rest, []byte("\nmessage:"))
		if !ok || !ok2 {
			t.Fatalf("case %q lacks input, param or message", f.Name)
		}
		cases = append(cases, badRequest{
			name:    f.Name,
			input:   string(input),
			param:   strings.TrimSpace(string(param)),
			message: strings.TrimSpace(string(message)),
		})
	}
	return archive.Comment, cases
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	comment, cases := readBad(t)
	if len(cases) < 140 {
		t.Fatalf("testdata/bad.txtar has %d cases, want at least 140", len(cases))
	}
	for i := range cases {
		c := &cases[i]
		r, err := Parse([]byte(c.body()))
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || r != nil {
			t.Errorf("%s: Parse = %v, %v, want a fault", c.name, r, err)
			continue
		}
		if *update {
			c.param, c.message = f.Param, f.Message
		}
		if f.Kind != fault.Invalid || f.Param != c.param || f.Message != c.message {
			t.Errorf("%s: Parse = %v, param %q,\n\t%s\nwant %v, param %q,\n\t%s",
				c.name, f.Kind, f.Param, f.Message, fault.Invalid, c.param, c.message)
		}
	}
	if *update {
		writeBad(t, comment, cases)
	}
}

func writeBad(t *testing.T, comment []byte, cases []badRequest) {
	t.Helper()
	archive := &txtar.Archive{Comment: comment}
	for _, c := range cases {
		data := c.input + "\nparam: " + c.param + "\nmessage: " + c.message + "\n"
		archive.Files = append(archive.Files, txtar.File{Name: c.name, Data: []byte(data)})
	}
	if err := os.WriteFile("testdata/bad.txtar", txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

package responses

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/kit/fault"
)

// badBody returns the request that an input of testdata/bad.txtar stands for.
func badBody(t testing.TB, input string) string {
	t.Helper()
	kind, rest, _ := strings.Cut(input, ": ")
	switch kind {
	case "body", "body:":
		return rest
	case "with":
		return `{"model":"m","input":"hi",` + rest + `}`
	case "input":
		return `{"model":"m","input":[` + rest + `]}`
	case "tools":
		return `{"model":"m","input":"hi","tools":[` + rest + `]}`
	}
	t.Fatalf("unknown kind of input %q", input)
	return ""
}

// refusal returns the fault of a request, as its sender reads it.
func refusal(body string) *fault.Fault {
	req, err := Parse([]byte(body))
	if err != nil {
		return fault.From(err)
	}
	_, err = req.Compose(nil)
	if err == nil { // a model that is translated to refuses what only the dialect can say
		if o := req.Original(nil); o != nil && o.Needs.Path != "" {
			err = fault.New(fault.Invalid, "This model does not know %s.", o.Needs.What).At(o.Needs.Path)
		}
	}
	if err == nil {
		return nil
	}
	return fault.From(err)
}

// TestBadRequests holds what senders of bad requests read against testdata/bad.txtar.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/bad.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) < 100 {
		t.Errorf("there are %d bad requests, want at least 100", len(archive.Files))
	}
	for i := range archive.Files {
		f := &archive.Files[i]
		input, rest, ok := bytes.Cut(f.Data, []byte("\nparam:"))
		if !ok {
			t.Fatalf("%s has no param", f.Name)
		}
		got := refusal(badBody(t, string(input)))
		if got == nil {
			t.Errorf("%s: the request is accepted", f.Name)
			continue
		}
		if got.Kind != fault.Invalid {
			t.Errorf("%s: the fault is %v", f.Name, got.Kind)
		}
		told := fmt.Sprintf(" %s\nmessage: %s\n", got.Param, got.Message)
		if *update {
			f.Data = fmt.Appendf(nil, "%s\nparam:%s", input, told)
		} else if string(rest) != told {
			t.Errorf("%s: param and message are\n%swant\n%s", f.Name, told, rest)
		}
		if got.Param != "" && !strings.HasPrefix(got.Message, got.Param) && !strings.HasPrefix(got.Message, "This model does not know ") {
			t.Errorf("%s: the message %q does not begin with the param %q", f.Name, got.Message, got.Param)
		}
	}
	if *update {
		if err := os.WriteFile("testdata/bad.txtar", txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

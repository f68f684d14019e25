package embeddings_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/embeddings"
)

var update = flag.Bool("update", false, "write testdata anew")

// badBody returns the request that an input of testdata/bad.txtar stands for.
func badBody(t testing.TB, input string) string {
	t.Helper()
	kind, rest, _ := strings.Cut(input, ": ")
	kind, count, _ := strings.Cut(kind, " ")
	n, _ := strconv.Atoi(count) // none where the kind has no number
	switch kind {
	case "body":
		return rest
	case "hex":
		b, err := strconv.Unquote(`"` + rest + `"`)
		if err != nil {
			t.Fatal(err)
		}
		return b
	case "with":
		return `{"model":"m","input":"a",` + rest + `}`
	case "input":
		return `{"model":"m","input":` + rest + `}`
	case "many":
		return `{"model":"m","input":[` + strings.TrimSuffix(strings.Repeat(rest+",", n), ",") + `]}`
	case "long": // a text in the place of the dots
		return strings.Replace(rest, "...", strings.Repeat("x", n), 1)
	case "deep":
		return `{"model":"m","input":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	t.Fatalf("unknown kind of input %q", input)
	return ""
}

// TestBad holds what senders of bad requests read against testdata/bad.txtar.
func TestBad(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/bad.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) < 100 {
		t.Errorf("there are %d bad requests, want at least 100", len(archive.Files))
	}
	seen := map[string]bool{}
	for i := range archive.Files {
		f := &archive.Files[i]
		input, rest, ok := bytes.Cut(f.Data, []byte("\nparam:"))
		if !ok || seen[string(input)] {
			t.Fatalf("%s has no param, or the request of another", f.Name)
		}
		seen[string(input)] = true
		req, err := embeddings.Parse([]byte(badBody(t, string(input))))
		if err == nil {
			t.Errorf("%s: the request is accepted: %+v", f.Name, req)
			continue
		}
		got := fault.From(err)
		if got.Kind != fault.Invalid {
			t.Errorf("%s: the fault is %v", f.Name, got.Kind)
		}
		told := fmt.Sprintf(" %s\nmessage: %s\n", got.Param, got.Message)
		if *update {
			f.Data = fmt.Appendf(nil, "%s\nparam:%s", input, told)
		} else if string(rest) != told {
			t.Errorf("%s: param and message are\n%swant\n%s", f.Name, told, rest)
		}
		if len(got.Message) > 400 || got.Param != "" && !strings.HasPrefix(got.Message, got.Param) {
			t.Errorf("%s: the message %q is long, or does not begin with the param %q", f.Name, got.Message, got.Param)
		}
	}
	if *update {
		if err := os.WriteFile("testdata/bad.txtar", txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

package moving_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/app/moving"
)

var update = flag.Bool("update", false, "write the results into testdata")

// archives returns the sources in testdata. Each archive has a file "source", the files that it includes, and what the
// converter makes of it. Its comment names the public file that has the same shape.
func archives(t testing.TB) []string {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 14 {
		t.Fatalf("found %d archives (%v), want at least 14", len(files), err)
	}
	return files
}

// member returns a file of an archive, or nil.
func member(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// options returns the options that the comment of an archive asks for with lines such as "plan: basic".
func options(a *txtar.Archive) moving.Options {
	o := moving.Options{Name: "source", ReadFile: func(name string) ([]byte, error) {
		if text := member(a, name); text != nil {
			return text, nil
		}
		return nil, errors.New("no such file")
	}}
	for line := range strings.Lines(string(a.Comment)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "plan":
			o.Plan = value
		case "model":
			o.Model = value
		case "secrets":
			o.SecretFolder = value
		case "with-secrets":
			o.WithSecrets = true
		}
	}
	return o
}

func TestImport(t *testing.T) {
	for _, file := range archives(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			res, err := moving.Import(member(a, "source"), options(a))
			if err != nil {
				t.Fatal(err)
			}
			var report bytes.Buffer
			fmt.Fprintf(&report, "%s: %d providers, %d models\n", res.From, res.Providers, res.Models)
			res.Report.Write(&report)
			got := map[string]string{"sluice.yaml": res.YAML, "report": report.String()}
			for i, f := range a.Files {
				if want, result := got[f.Name]; result && want != string(f.Data) {
					if a.Files[i].Data = []byte(want); !*update {
						t.Errorf("%s of %s is\n%s\nwant\n%s", f.Name, file, want, f.Data)
					}
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestNothingIsLost checks that every value of every source has exactly one line in the report.
func TestNothingIsLost(t *testing.T) {
	for _, file := range archives(t) {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lost(t, file, member(a, "source"), options(a))
	}
}

// lost compares the report on a source with its values.
func lost(t *testing.T, name string, source []byte, o moving.Options) {
	t.Helper()
	res, err := moving.Import(source, o)
	if err != nil {
		return
	}
	want, err := moving.Paths(o.Name, source)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, e := range res.Report.Entries {
		if e.Outcome != moving.Missing {
			times[e.Path]++
		}
		if e.Text == "" {
			t.Errorf("%s: %s (%s) has no explanation", name, e.Path, e.Outcome)
		}
	}
	for _, path := range want {
		times[path]--
	}
	for path, n := range times {
		if path != "the file" && n != 0 && !strings.Contains(path, ": ") { // those of included files are not in want
			t.Errorf("%s: %s is reported %d times too often", name, path, n)
		}
	}
}

// secretWords are in the keys of all sources in testdata, and nowhere else in them.
const secretWord = "hush"

// TestNothingSecretIsShown checks that keys of sources are neither in the result nor in the report, unless asked for.
func TestNothingSecretIsShown(t *testing.T) {
	seen := 0
	for _, file := range archives(t) {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o := options(a)
		source := member(a, "source")
		seen += bytes.Count(source, []byte(secretWord))
		for _, with := range []bool{false, true} {
			o.WithSecrets = with
			if with {
				o.SecretFolder = ""
			}
			res, err := moving.Import(source, o)
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(res.Report.Entries, res.Warnings)
			if !with {
				text += res.YAML
			}
			if strings.Contains(text, secretWord) {
				t.Errorf("%s: a key of the source is shown (with secrets: %t)", file, with)
			}
		}
	}
	if seen < 10 {
		t.Errorf("the sources have %d keys, want at least 10", seen)
	}
}

func TestRefusals(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	// Each alias doubles the values: 2^20 of them in all.
	bomb := "a0: &a0 [x, x]\n"
	for i := 1; i < 20; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	for _, c := range []struct{ name, source, want string }{
		{"empty", "", "is empty"},
		{"unknown", "listen: 127.0.0.1:8080\n", "not a configuration of a gateway that is known here; name its format with --from: litellm, portkey, new-api, one-api, openrouter"},
		{"torn", "model_list: [", "in:1: this is not valid YAML or JSON"},
		{"deep", deep, "nested more than 32 deep"},
		{"bomb", bomb, "more than 50000 values"},
		{"large", strings.Repeat("# a comment\n", 100_000), "larger than 1 MiB"},
		{"include", "include: [none.yaml]\n", `include[0]: cannot read the included file "none.yaml": no such file`},
		{"loop", "model_list: *x\n", "has no anchor before it"},
		{"portkey", `{"strategy": {"mode": "single"}, "targets": [{"provider": "openai"}]}`, "say which one its callers use, with --model ID"},
	} {
		o := moving.Options{Name: "in", ReadFile: func(string) ([]byte, error) { return nil, errors.New("no such file") }}
		if _, err := moving.Import([]byte(c.source), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Import(%s) = %v, want an error with %q", c.name, err, c.want)
		}
	}
	if _, err := moving.Import([]byte("{}"), moving.Options{From: "kong"}); err == nil || !strings.Contains(err.Error(), `"kong" is not a known format`) {
		t.Errorf("Import from kong = %v, want an error that names the formats", err)
	}
}

// TestMutations checks the same on sources with random damage, the same on every run.
func TestMutations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, file := range archives(t) {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			source := bytes.Clone(member(a, "source"))
			for range 1 + r.IntN(4) {
				i, j := r.IntN(len(source)), r.IntN(len(source))
				switch end := min(len(source), j+r.IntN(30)); r.IntN(3) {
				case 0:
					source[i] = byte(r.IntN(128))
				case 1:
					source = slices.Delete(source, j, end)
				case 2:
					source = slices.Insert(source, i, bytes.Clone(source[j:end])...)
				}
				if len(source) == 0 {
					break
				}
			}
			valid(t, source)
		}
	}
}

// valid converts a source from every format.
func valid(t *testing.T, source []byte) {
	t.Helper()
	for _, from := range moving.Formats() {
		o := moving.Options{Name: "in", From: from, Model: "m"}
		if _, err := moving.Import(source, o); err != nil && strings.Contains(err.Error(), "a bug of the converter") {
			t.Errorf("from %s: %v\nof\n%s", from, err, source)
		}
		lost(t, from, source, o)
	}
}

// FuzzImport checks that whatever a file holds, the result is valid or there is an error, and every value is reported.
func FuzzImport(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(member(a, "source"))
	}
	f.Fuzz(valid)
}

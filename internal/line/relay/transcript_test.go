package relay

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/kit/fault"
)

var update = flag.Bool("update", false, "rewrite what callers got in testdata/*.txtar")

// transcript is one case of testdata/*.txtar. NAME/upstream is what came down, NAME/caller what the
// caller got, byte for byte, and, behind a line of dashes, what the reply came to. NAME/how holds
// words: whole (the caller wants no stream), n=2, usage (the caller wants figures), json or sse (the
// upstream's content type, where it is not what the caller wants), crlf (its line ends), bytes
// (\x escapes stand for bytes).
type transcript struct {
	name        string
	upstream    string
	whole       bool
	contentType string
	opts        Options
	crlf, bytes bool
}

// readTranscripts reads a file of cases, in its order.
func readTranscripts(t testing.TB, file string) (*txtar.Archive, []transcript) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []transcript
	var c transcript
	for _, f := range archive.Files {
		name, part, _ := strings.Cut(f.Name, "/")
		switch part {
		case "how":
			c.name = name
			err = c.read(strings.Fields(string(f.Data)))
		case "upstream":
			if c.name != name {
				c = transcript{name: name}
			}
			err = c.decode(string(f.Data))
			cases = append(cases, c)
			c = transcript{}
		case "caller":
		default:
			err = errors.New("this is no part of a case")
		}
		if err != nil {
			t.Fatalf("%s: %s: %v", file, f.Name, err)
		}
	}
	return archive, cases
}

func (c *transcript) read(how []string) error {
	for _, word := range how {
		switch word {
		case "whole":
			c.whole = true
		case "usage":
			c.opts.IncludeUsage = true
		case "n=2":
			c.opts.N = 2
		case "json":
			c.contentType = "application/json"
		case "sse":
			c.contentType = "text/event-stream"
		case "crlf":
			c.crlf = true
		case "bytes":
			c.bytes = true
		default:
			return fmt.Errorf("what is %q?", word)
		}
	}
	return nil
}

// decode takes the text of the file for the bytes that it stands for.
func (c *transcript) decode(s string) error {
	if c.contentType == "" {
		c.contentType = "text/event-stream"
		if c.whole {
			c.contentType = "application/json"
		}
	}
	if c.crlf {
		s = strings.ReplaceAll(s, "\n", "\r\n")
	}
	for i := 0; c.bytes; i++ {
		n := strings.Index(s[i:], `\x`)
		if n < 0 {
			break
		}
		i += n
		b, err := strconv.ParseUint(s[i+2:i+4], 16, 8)
		if err != nil {
			return err
		}
		s = s[:i] + string([]byte{byte(b)}) + s[i+4:]
	}
	c.upstream = s
	return nil
}

// transcripts are all cases of all files.
func transcripts(t testing.TB) (all []transcript) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		_, cases := readTranscripts(t, file)
		all = append(all, cases...)
	}
	return all
}

// got is what the file says of a reply.
func got(c *caller, err error) string {
	var b strings.Builder
	b.WriteString(c.body.String())
	if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteByte('\n')
	}
	b.WriteString("----\n")
	if isPlain(err) {
		f := fault.From(err)
		fmt.Fprintf(&b, "fault %d: %s\n", f.Kind.Status(), f.Message)
	}
	for _, s := range c.settled {
		o := &s.outcome
		u := o.Usage
		fmt.Fprintf(&b, "complete %t, finish %q, usage given %t: %d+%d %d+%d\n", o.Complete, o.Finish, o.HasUsage, u.Prompt, u.Cached, u.Completion, u.Reasoning)
		text, reasoning, more := o.Produced()
		fmt.Fprintf(&b, "text %q\nreasoning %q\n", text, reasoning)
		if more > 0 || o.FirstContent.IsZero() != (text+reasoning == "") {
			fmt.Fprintf(&b, "more %d, first content %v\n", more, o.FirstContent)
		}
	}
	return b.String()
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		archive, cases := readTranscripts(t, file)
		want := map[string]string{}
		for _, f := range archive.Files {
			if name, ok := strings.CutSuffix(f.Name, "/caller"); ok {
				want[name] = string(f.Data)
			}
		}
		results := map[string]string{}
		for _, c := range cases {
			r, err := relayed(t, c.contentType, strings.NewReader(c.upstream), !c.whole, c.opts)
			result := got(r, err)
			results[c.name] = result
			if !*update {
				if diff := cmp.Diff(want[c.name], result); diff != "" {
					t.Errorf("%s: %s: -want +got\n%s", file, c.name, diff)
				}
			}
			slow, err := relayed(t, c.contentType, iotest.OneByteReader(strings.NewReader(c.upstream)), !c.whole, c.opts)
			if diff := cmp.Diff(result, got(slow, err)); diff != "" {
				t.Errorf("%s: %s: one byte at a time: -together +apart\n%s", file, c.name, diff)
			}
		}
		if *update {
			rewrite(t, file, archive, results)
		}
	}
}

// rewrite puts the results behind the upstreams that they come from.
func rewrite(t *testing.T, file string, archive *txtar.Archive, results map[string]string) {
	t.Helper()
	out := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		name, part, _ := strings.Cut(f.Name, "/")
		if part == "caller" {
			continue
		}
		out.Files = append(out.Files, f)
		if part == "upstream" {
			out.Files = append(out.Files, txtar.File{Name: name + "/caller", Data: []byte(results[name])})
		}
	}
	if err := os.WriteFile(file, txtar.Format(out), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestTranscriptsKeepTheRules holds every stream of the files against the rules, whatever they say.
func TestTranscriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	streams := 0
	for _, c := range transcripts(t) {
		for _, opts := range []Options{{N: 1}, {N: 1, IncludeUsage: true}, {N: 2}, {N: 3, IncludeUsage: true}} {
			r, err := relayed(t, c.contentType, strings.NewReader(c.upstream), true, opts)
			for _, problem := range broken(r, err, opts) {
				t.Errorf("%s, n %d: %s", c.name, opts.N, problem)
			}
			streams++
		}
	}
	if streams < 100 {
		t.Errorf("%d streams, want at least 100", streams)
	}
}

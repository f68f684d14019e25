package responses

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/kit/fault"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

var update = flag.Bool("update", false, "write what is expected in testdata anew")

// played is an upstream that says what it is told to.
type played struct {
	events []provider.Event
	err    error
}

func (p *played) Next() (*provider.Event, error) {
	if len(p.events) == 0 {
		return nil, p.err
	}
	ev := &p.events[0]
	p.events = p.events[1:]
	return ev, nil
}

func (p *played) Ready() bool  { return true }
func (p *played) Close() error { return nil }

// play reads a script of an upstream: one event a line, with texts in Go's quotes.
func play(t testing.TB, script string) *played {
	t.Helper()
	p := &played{err: io.EOF}
	for line := range strings.Lines(script) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var words []string
		for rest != "" {
			word, err := strconv.QuotedPrefix(rest)
			if err != nil {
				word, rest, _ = strings.Cut(rest, " ")
				words = append(words, word)
				continue
			}
			rest = strings.TrimSpace(rest[len(word):])
			word, _ = strconv.Unquote(word)
			words = append(words, word)
		}
		number := func(i int) int {
			n, err := strconv.Atoi(words[i])
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			return n
		}
		ev := provider.Event{}
		switch kind {
		case "text":
			ev.Kind, ev.Text = provider.Text, words[0]
		case "reasoning":
			ev.Kind, ev.Text = provider.Reasoning, words[0]
		case "declined":
			ev.Kind, ev.Text = provider.Declined, words[0]
		case "call":
			ev.Kind, ev.Tool = provider.ToolCall, provider.ToolPiece{Index: number(0), ID: words[1], Name: words[2], Arguments: words[3]}
		case "input":
			ev.Kind, ev.Tool = provider.ToolCall, provider.ToolPiece{Index: number(0), ID: words[1], Name: words[2], Arguments: words[3], Custom: true}
		case "approve": // a call that needs an approval
			ev.Kind, ev.Tool = provider.ToolCall, provider.ToolPiece{Index: number(0), ID: words[1], Name: words[2] + "__" + words[3], Arguments: words[4]}
			ev.Step = &provider.Step{Server: words[2], Tool: words[3]}
		case "listed":
			ev.Kind, ev.Step = provider.Other, &provider.Step{Server: words[0], Tools: []byte(words[1])}
		case "ran", "failed":
			ev.Kind, ev.Step = provider.Other, &provider.Step{Server: words[0], Tool: words[1], Arguments: words[2], Output: words[3], Approval: words[4], Failed: kind == "failed"}
		case "more":
			ev.Kind, ev.Tool = provider.ToolCall, provider.ToolPiece{Index: number(0), Arguments: words[1]}
		case "finish":
			ev.Kind, ev.Finish = provider.Finish, chat.Finish(words[0])
		case "usage":
			ev.Kind, ev.Usage = provider.Usage, chat.Usage{Prompt: number(0), Cached: number(1), Completion: number(2), Reasoning: number(3)}
			if len(words) > 4 {
				ev.Usage.CacheWrite5m, ev.Usage.CacheWrite1h = number(4), number(5)
			}
		case "fault":
			p.err = fault.New(fault.Unavailable, "%s", words[0])
			continue
		case "limit":
			p.err = fault.New(fault.RateLimited, "%s", words[0])
			continue
		default:
			t.Fatalf("unknown event %q", line)
		}
		p.events = append(p.events, ev)
	}
	return p
}

// answer runs a reply through the relay and returns what the caller gets.
func answer(t testing.TB, body string, up *played, opts *Options) (string, error) {
	t.Helper()
	w := httptest.NewRecorder()
	_, err := answerTo(t, w, body, up, opts)
	return w.Body.String(), err
}

// answerTo is answer with the caller's side of the connection. It returns what a recorder has.
func answerTo(t testing.TB, w http.ResponseWriter, body string, up *played, opts *Options) (string, error) {
	t.Helper()
	req, err := Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := req.Compose(nil); err != nil {
		t.Fatal(err)
	}
	head := relay.Head{RequestID: "r1", Created: 1700000000}
	out := relay.New(w, head, relay.Options{Stream: req.Stream, Dialect: NewWriter(req, head, opts)})
	defer out.Close()
	out.Introduce(func(http.Header) string { return "lab/large" })
	out.Relay(t.Context(), up)
	err = out.Finish()
	if recorder, ok := w.(*httptest.ResponseRecorder); ok {
		return recorder.Body.String(), err
	}
	return "", err
}

// written returns the JSON of a chat completion; empty if there is none.
func written(r *chat.Request) string {
	if r == nil {
		return ""
	}
	return string(r.AppendUpstream(nil, chat.Patch{}))
}

// composed returns the chat completion of a request, or the fault.
func composed(request string, past *Past) string {
	req, err := Parse([]byte(request))
	if err != nil {
		return err.Error()
	}
	same, err := req.Compose(past)
	if err != nil {
		return err.Error()
	}
	body := []byte(written(same))
	if _, err := chat.Parse(body); err != nil { // what an upstream of that dialect gets is a chat completion
		return err.Error()
	}
	var out bytes.Buffer
	if err := json.Indent(&out, body, "", " "); err != nil {
		return err.Error()
	}
	return out.String()
}

// TestTranscripts plays testdata/*.txtar. NAME/request is a request, NAME/past holds the items before it, one a line.
// NAME/chat is the chat completion that it becomes. NAME/upstream is what the model says, NAME/stream what the caller
// gets as a stream, and NAME/whole in one piece.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob = %v, %v", files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "bad.txtar" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var request string
			past := &Past{}
			var upstream string
			for i := range archive.Files {
				f := &archive.Files[i]
				name, part, _ := strings.Cut(f.Name, "/")
				var got string
				switch part {
				case "request":
					request, past = string(f.Data), &Past{Referenced: map[string][]byte{}}
					continue
				case "past":
					for line := range strings.Lines(string(f.Data)) {
						past.Items = append(past.Items, []byte(line))
					}
					continue
				case "referenced":
					for line := range strings.Lines(string(f.Data)) {
						v := chat.ValueOf([]byte(line))
						past.Referenced[v.Given("id").Text()] = v.Raw()
					}
					continue
				case "upstream":
					upstream = string(f.Data)
					continue
				case "chat":
					got = composed(request, past) + "\n"
				case "stream":
					body, err := answer(t, strings.Replace(request, "{", `{"stream":true,`, 1), play(t, upstream), sealing())
					checkStream(t, name, body)
					got = body + told(err)
				case "whole":
					body, err := answer(t, request, play(t, upstream), sealing())
					got = body + told(err)
				default:
					t.Fatalf("%s is no part of a case", f.Name)
				}
				if *update {
					f.Data = []byte(got)
					continue
				}
				if diff := cmp.Diff(string(f.Data), got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", f.Name, diff)
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// told says how a reply ended.
func told(err error) string {
	if err == nil {
		return "\n"
	}
	return fmt.Sprintf("\n--- %v\n", err)
}

// sealing is the options of a writer that stores and encrypts.
func sealing() *Options {
	return &Options{Keep: func([]byte) bool { return true }, Seal: func(text []byte) string { return fmt.Sprintf("sealed-%d", len(text)) }}
}

// checkStream holds a stream against the rules that all streams keep.
func checkStream(t testing.TB, name, body string) {
	t.Helper()
	seq, open, finals := 0, map[float64]bool{}, 0
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		head, data, ok := strings.Cut(block, "\ndata: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("%s: %q is no event", name, block)
		}
		var ev map[string]any
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			t.Fatalf("%s: %v in %s", name, err, data)
		}
		kind := ev["type"].(string)
		if head != "event: "+kind || ev["sequence_number"] != float64(seq) {
			t.Fatalf("%s: event %d is %q with %s", name, seq, head, data)
		}
		if finals > 0 {
			t.Fatalf("%s: %s follows the last event", name, kind)
		}
		if seq == 0 && kind != "response.created" {
			t.Fatalf("%s: the first event is %s", name, kind)
		}
		seq++
		index, about := ev["output_index"].(float64)
		switch kind {
		case "response.output_item.added":
			if index != float64(len(open)) {
				t.Fatalf("%s: item %v is added after %d others", name, index, len(open))
			}
			open[index] = true
		case "response.output_item.done":
			if !open[index] {
				t.Fatalf("%s: item %v ends twice", name, index)
			}
			open[index] = false
		case "response.completed", "response.incomplete", "response.failed":
			finals++
			if kind != "response.failed" {
				for i, is := range open {
					if is {
						t.Fatalf("%s: item %v has not ended", name, i)
					}
				}
			}
		default:
			if about && !open[index] {
				t.Fatalf("%s: %s is about an item that is not open", name, kind)
			}
		}
	}
	if finals != 1 {
		t.Fatalf("%s: %d last events", name, finals)
	}
}

// Shorten leaves out the oldest turns, keeps instructions and the last turn, and never parts a call from its output.
func TestShorten(t *testing.T) {
	t.Parallel()
	req, err := Parse([]byte(`{"model":"m","instructions":"i","input":[{"role":"user","content":"1"},{"role":"system","content":"s"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
		{"type":"function_call_output","call_id":"c","output":"2"},{"role":"assistant","content":"3"},{"role":"user","content":"4"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		parsed, err := req.Compose(nil)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, m := range parsed.Messages {
			said = append(said, m.Content.Text())
		}
		got = append(got, strings.Join(said, ","))
		if !req.Shorten() {
			break
		}
	}
	want := []string{"i,1,s,,2,3,4", "i,s,,2,3,4", "i,s,3,4", "i,s,4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conversations (-want +got):\n%s", diff)
	}
}

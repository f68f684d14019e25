package oracles

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/oracles/contracts"
)

var newNames = flag.String("contracts", "", "a folder with lists of names to try in place of those in contracts/names; make contracts sets it")

// Doors to vendors: the names must be in the code that speaks to them.
var contractSources = map[string]string{"gemini": "../internal/upstream/provider/gemini", "videos": "../internal/video/openai"}

// TestContracts holds a gateway against every name that the official SDKs declare. A name that it refuses, loses or does not
// send needs a line in contracts/known.txt.
func TestContracts(t *testing.T) {
	t.Parallel()
	lists := contractLists(t, filepath.Join("contracts", "names"))
	tried := lists
	if *newNames != "" {
		tried = contractLists(t, *newNames)
	} else {
		pinned(t, lists)
	}
	verdicts := tryAll(t, tried)
	known, err := contracts.ReadKnown(filepath.Join("contracts", "known.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if *newNames != "" {
		printAdded(lists, tried, verdicts)
	}
	decide(t, known, tried, verdicts)
}

// contractLists reads the lists in a folder.
func contractLists(t *testing.T, folder string) (lists []*contracts.List) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no lists of names in %s (%v)", folder, err)
	}
	for _, file := range files {
		l, err := contracts.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		lists = append(lists, l)
	}
	return lists
}

// pinned finds lists of another version than the one that is installed for the tests.
func pinned(t *testing.T, lists []*contracts.List) {
	t.Helper()
	for _, l := range lists {
		for _, folder := range []string{"node", "contracts"} {
			if v := npmVersion(t, folder, l.Package); v != "" && v != l.Version {
				t.Errorf("contracts/names has %s %s, and %s/package.json %s: make both the same and run make contracts", l.Package, l.Version, folder, v)
			}
		}
	}
}

// tryAll returns the verdicts on all names.
func tryAll(t *testing.T, lists []*contracts.List) map[string][]verdict {
	t.Helper()
	samples := contracts.NewSamples(lists...)
	byDoor := map[string][]contracts.Name{}
	for _, l := range lists {
		for _, n := range l.Names {
			door, _, _ := strings.Cut(strings.Replace(n.Root, "-beta", "", 1), " ")
			byDoor[door] = append(byDoor[door], n)
		}
	}
	var mu sync.Mutex
	verdicts := map[string][]verdict{}
	t.Run("doors", func(t *testing.T) {
		for door, names := range byDoor {
			t.Run(door, func(t *testing.T) {
				t.Parallel()
				found := tryDoor(t, samples, door, names)
				mu.Lock()
				defer mu.Unlock()
				maps.Copy(verdicts, found)
			})
		}
	})
	return verdicts
}

// tryDoor returns the verdicts on the names of one door.
func tryDoor(t *testing.T, samples *contracts.Samples, door string, names []contracts.Name) map[string][]verdict {
	t.Helper()
	verdicts := map[string][]verdict{}
	if folder := contractSources[door]; folder != "" {
		words := sourceWords(t, folder)
		for _, n := range names {
			if above := verdicts[parent(n, verdicts)]; inherits(n, above) {
				verdicts[n.String()] = above
				continue
			}
			verdicts[n.String()] = []verdict{{what: ifElse(words[n.Path.Last()], read, absent), on: n.Path}}
		}
		return verdicts
	}
	p := startContracts(t)
	corpus := p.corpus(t, door)
	for _, n := range names {
		above := slices.DeleteFunc(slices.Clone(verdicts[parent(n, verdicts)]), func(v verdict) bool { return v.what == exposed })
		if _, side, _ := strings.Cut(n.Root, " "); side == "request" {
			verdicts[n.String()] = p.tryRequest(t, samples, n, contractDoors[door], above)
		} else if inherits(n, above) {
			verdicts[n.String()] = above
		} else {
			verdicts[n.String()] = []verdict{{what: p.tryReply(t, samples, n, contractDoors[door], corpus), on: n.Path}}
		}
	}
	return verdicts
}

// parent is the nearest name above one that has a verdict. A beta lists only what it adds.
func parent(n contracts.Name, verdicts map[string][]verdict) string {
	for p := n.Path[:len(n.Path)-1]; len(p) > 0; p = p[:len(p)-1] {
		for _, root := range []string{n.Root, strings.Replace(n.Root, "-beta", "", 1)} {
			if name := root + " " + p.String(); verdicts[name] != nil {
				return name
			}
		}
	}
	return ""
}

// inherits reports whether a name shares the fate of one that it is inside of. The sample of a field is one of its values, so
// the fate of the others may be another one.
func inherits(n contracts.Name, above []verdict) bool {
	if len(above) != 1 || slices.Contains([]string{passedOn, read, sent}, above[0].what) {
		return false
	}
	on := above[0].on
	rest := n.Path[len(on):]
	own := slices.ContainsFunc(rest, func(s contracts.Step) bool { return s.Kind == contracts.Variant || s.Kind == contracts.Value })
	return !slices.Contains([]string{refused, lost, unclear}, above[0].what) || on[len(on)-1].Kind == contracts.Variant || !own
}

// tryRequest returns what becomes of a name at a provider of the same dialect, and where it is translated.
func (p *prober) tryRequest(t *testing.T, samples *contracts.Samples, n contracts.Name, d contractDoor, above []verdict) (verdicts []verdict) {
	t.Helper()
	for i, at := range []struct{ where, model string }{{"native", d.own}, {"translated", d.other}} {
		if at.model == "" {
			continue
		}
		if i < len(above) && inherits(n, above[i:i+1]) {
			verdicts = append(verdicts, above[i])
			continue
		}
		with, without := sampleRequest(samples, n, d, at.model)
		v := verdict{where: at.where, on: n.Path}
		v.what, v.detail = judge(n, p.ask(t, d.path, with, nil), p.ask(t, d.path, without, nil))
		verdicts = append(verdicts, v)
	}
	if p.expose(t, samples, n, d) {
		verdicts = append(verdicts, verdict{what: exposed, on: n.Path})
	}
	return verdicts
}

// tryReply reports whether a name that a provider of the same dialect sends reaches the caller, or is in a reply that we made.
func (p *prober) tryReply(t *testing.T, samples *contracts.Samples, n contracts.Name, d contractDoor, corpus []any) string {
	t.Helper()
	docs := corpus
	if d.path != "" {
		body := decoded(d.body).(map[string]any)
		body["model"] = d.own
		var base any
		if strings.HasSuffix(n.Root, " event") {
			body["stream"] = true
			if d.path == "/chat/completions" {
				base = decoded(streams["/v1/chat/completions"][2])
			}
		} else {
			base = decoded(wholes["/v1"+d.path])
		}
		o := p.ask(t, d.path, body, samples.Of(n.Root, base, n.Path, n.Least))
		if o.status >= http.StatusInternalServerError {
			p.recover(t, d, body)
		}
		docs = append(o.docs, corpus...)
	}
	found := slices.ContainsFunc(docs, func(doc any) bool { return len(n.Path.Find(doc)) > 0 })
	return ifElse(found, sent, notSent)
}

// recover makes two good calls, so that the breaker of the upstream does not open.
func (p *prober) recover(t *testing.T, d contractDoor, body any) {
	t.Helper()
	for range 2 {
		clear(p.seen) // ask again
		if o := p.ask(t, d.path, body, nil); o.status != http.StatusOK {
			t.Fatalf("a plain call after an odd reply = %d %v, want 200", o.status, o.docs)
		}
	}
}

func ifElse(cond bool, yes, no string) string {
	if cond {
		return yes
	}
	return no
}

// corpus returns replies of all kinds that a door sends: whole and streamed, with tools, cut off, refused.
func (p *prober) corpus(t *testing.T, door string) (docs []any) {
	t.Helper()
	switch door {
	case "models":
		return p.get(t, "/models/"+small, "")
	case "messages-models":
		return p.get(t, "/models/"+small, "2023-06-01")
	case "error", "messages-error":
		return p.errors(t, door)
	}
	d := contractDoors[door]
	if door == "embeddings" {
		return p.ask(t, d.path, map[string]any{"model": d.own, "input": "Hi."}, nil).docs
	}
	for _, model := range []string{d.own, d.other, reasoner} {
		if model == "" {
			continue
		}
		for _, answer := range corpusAnswers(model) {
			body := decoded(d.body).(map[string]any)
			body["model"], body["tools"] = model, nil
			for _, stream := range []bool{false, true} {
				body["stream"] = stream
				body["tools"] = someTools(body)
				docs = append(docs, p.ask(t, d.path, body, answer).docs...)
			}
		}
	}
	return docs
}

// corpusAnswers are replies of an upstream for what a plain one does not have. A provider of chat completions tells them.
func corpusAnswers(model string) []any {
	answers := []any{nil}
	if model != "lab/chat" {
		return answers
	}
	for _, end := range []string{"stop", "length", "content_filter", "tool_calls"} {
		message := map[string]any{"role": "assistant", "content": "Hi.", "reasoning_content": "Hm."}
		if end == "tool_calls" {
			message["tool_calls"] = decoded(`[{"id":"a","type":"function","function":{"name":"a","arguments":"{}"}}]`)
		}
		answer := decoded(wholes["/v1/chat/completions"]).(map[string]any)
		answer["choices"] = []any{map[string]any{"index": 0, "message": message, "finish_reason": end}}
		answer["usage"] = decoded(`{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":1}}`)
		answers = append(answers, answer)
	}
	return answers
}

// get returns the reply to a GET.
func (p *prober) get(t *testing.T, path, anthropicVersion string) []any {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", p.g.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.g.owner)
	if anthropicVersion != "" {
		r.Header.Set("Anthropic-Version", anthropicVersion)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return documents(text)
}

// errors returns replies to calls that fail: the error objects of OpenAI, or the whole replies of Anthropic.
func (p *prober) errors(t *testing.T, door string) (docs []any) {
	t.Helper()
	d := contractDoors[ifElse(door == "error", "chat", "messages")]
	owner := p.g.owner
	_, none := p.g.account(t, "none", "none")
	for _, call := range []struct{ key, model, more string }{
		{owner, small, `"max_tokens":"a"`}, {owner, "no/model", ``}, {"sk-wrong", small, ``}, {none, large, ``}, {p.g.suspended(t), small, ``},
	} {
		body := decoded(d.body).(map[string]any)
		body["model"] = call.model
		if call.more != "" {
			maps.Copy(body, decoded("{"+call.more+"}").(map[string]any))
		}
		p.g.owner = call.key
		docs = append(docs, p.ask(t, d.path, body, nil).docs...)
	}
	p.g.owner = owner
	body := decoded(d.body).(map[string]any)
	for _, status := range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusGatewayTimeout} {
		body["model"] = d.own
		docs = append(docs, p.ask(t, d.path, body, status).docs...)
	}
	docs = append(docs, p.get(t, d.path+"/none", "")...)
	if door == "error" {
		for i := range docs {
			docs[i] = docs[i].(map[string]any)["error"]
		}
	}
	return docs
}

var sourceWord = regexp.MustCompile(`[A-Za-z0-9_-]+`)

// sourceWords are the words in the strings of the Go files of a folder, tags of fields included.
func sourceWords(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no code in %s (%v)", folder, err)
	}
	words := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				for _, word := range sourceWord.FindAllString(lit.Value, -1) {
					words[word] = true
				}
			}
			return true
		})
	}
	return words
}

// fine are the verdicts that need no decision.
var fine = []string{passedOn, read, dropped, sent}

// decide fails for names that need a decision and have none, and says which lines of the file are about nothing any more.
func decide(t *testing.T, known *contracts.Known, lists []*contracts.List, verdicts map[string][]verdict) {
	t.Helper()
	for _, l := range lists {
		for _, n := range l.Names {
			for _, v := range verdicts[n.String()] {
				if d := known.Decide(n.String(), v.String()); d == nil && len(v.on) == len(n.Path) && !slices.Contains(fine, v.what) {
					t.Errorf("new: %s (%s %s): %s: %s", n, l.Package, l.Version, v, v.detail)
				}
			}
		}
	}
	for _, d := range known.Lines {
		switch {
		case d.Seen == 0:
			fmt.Printf("gone: no SDK has %s any more: remove its line from known.txt\n", d.Names)
		case d.Used == 0:
			fmt.Printf("settled: no name of %s is %s any more: remove its line from known.txt\n", d.Names, d.Verdict)
		}
	}
}

// printAdded prints the names that lists have and the ones before had not, and the other way round.
func printAdded(before, after []*contracts.List, verdicts map[string][]verdict) {
	had, has := map[string]bool{}, map[string]bool{}
	for _, l := range before {
		for _, n := range l.Names {
			had[n.String()] = true
		}
	}
	for _, l := range after {
		for _, n := range l.Names {
			if has[n.String()] = true; !had[n.String()] {
				fmt.Printf("added: %s: %v\n", n, verdicts[n.String()])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(had)) {
		if !has[name] {
			fmt.Printf("removed: %s\n", name)
		}
	}
}

// npmVersion is the version of a package that a folder's package.json names.
func npmVersion(t *testing.T, folder, pkg string) string {
	t.Helper()
	var list struct{ Dependencies map[string]string }
	if err := json.Unmarshal(mustRead(t, filepath.Join(folder, "package.json")), &list); err != nil {
		t.Fatal(err)
	}
	return list.Dependencies[pkg]
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

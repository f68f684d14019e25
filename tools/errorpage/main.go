// Command errorpage writes docs/errors.md: every status and type of error that the API answers with, what causes it, what to
// do, and the sentences that callers read.
//
// Nothing of the page is typed by hand: statuses and types are those of package fault, causes and remedies those of the
// API's description, and the sentences are read from the source. It takes the folder of the repository.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice/api"
	"sluice/internal/api/httpserver"
	"sluice/internal/api/messages"
	"sluice/internal/kit/fault"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: errorpage REPOSITORY")
	}
	text, err := page(os.Args[1])
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Args[1], "docs", "errors.md"), []byte(text), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

const opening = `# Errors

<!-- Written by go generate ./cmd/sluice. -->

Every error reply has a status, a type and a sentence that says what is wrong and what to do. [The contract](api.md#errors) has the form of the error object, and the few statuses that stand for the same types (422, 426). Search this page for the sentence that you got: what changes from call to call is
written as …

"Retried" says whether the client libraries of OpenAI and Anthropic send the request again by themselves, twice by default. They wait as long as the reply says, and never retry a reply with ` + "`x-should-retry: false`" + `.

`

// page returns docs/errors.md.
func page(root string) (string, error) {
	known, err := explanations()
	if err != nil {
		return "", err
	}
	said, err := sentences(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(opening)
	b.WriteString("| status | type | at `/v1/messages` | retried | cause |\n|---|---|---|---|---|\n")
	kinds := listed()
	for _, k := range kinds {
		fmt.Fprintf(&b, "| [%d](#%s) | `%s` | `%s` | %s | %s |\n", k.Status(), anchor(k), k, messages.ErrorType(k), retried(k), known[k.String()].Meaning)
	}
	for _, k := range kinds {
		e := known[k.String()]
		fmt.Fprintf(&b, "\n## %d %s\n\n%s\n\n**What to do.** %s\n\n**Retried.** %s.\n\n", k.Status(), k, e.Meaning, e.Remedy, retriedAtLength(k))
		for _, s := range said[k.String()] {
			fmt.Fprintf(&b, "- %s\n", s)
		}
	}
	b.WriteString(tooLong())
	b.WriteString(malformed())
	return b.String(), nil
}

// listed returns the kinds by status. Two kinds that callers cannot tell apart are one.
func listed() []fault.Kind {
	kinds := slices.SortedFunc(slices.Values(fault.Kinds()), func(x, y fault.Kind) int {
		return cmp.Or(cmp.Compare(x.Status(), y.Status()), cmp.Compare(x.String(), y.String()))
	})
	return slices.CompactFunc(kinds, func(x, y fault.Kind) bool { return x.String() == y.String() })
}

func anchor(k fault.Kind) string { return fmt.Sprintf("%d-%s", k.Status(), k) }

// retried says whether clients send a request again after a fault.
func retried(k fault.Kind) string {
	if fault.New(k, "").Retryable() {
		return "yes"
	}
	return "no"
}

func retriedAtLength(k fault.Kind) string {
	if retried(k) == "no" {
		return "No: the same request fails again. The reply has `x-should-retry: false`"
	}
	f, h := fault.New(k, ""), http.Header{}
	if f.SetRetry(h); h.Get("Retry-After") != "" || k == fault.RateLimited {
		return "Yes, after the time in `Retry-After`. A reply with `x-should-retry: false` is not"
	}
	return "Yes, after a short wait"
}

// explanation is what the description of the API says about a type.
type explanation struct {
	Type    string `json:"type"`
	Meaning string `json:"meaning"`
	Remedy  string `json:"remedy"`
}

// inReference matches a link to the reference page, which is not part of the documentation.
var inReference = regexp.MustCompile(`\[([^\]]*)\]\(#\w+\)`)

// explanations returns what the description of the API says, by type.
func explanations() (map[string]explanation, error) {
	var doc struct {
		Components struct {
			Schemas struct {
				Error struct {
					Types []explanation `json:"x-error-types"`
				} `json:"Error"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(api.OpenAPI(), &doc); err != nil {
		return nil, err
	}
	all := map[string]explanation{}
	for _, e := range doc.Components.Schemas.Error.Types {
		e.Meaning, e.Remedy = inReference.ReplaceAllString(e.Meaning, "$1"), inReference.ReplaceAllString(e.Remedy, "$1")
		all[e.Type] = e
	}
	return all, nil
}

// tooLong returns the section about prompts that are too long, which programs recognize by a code or by their words.
func tooLong() string {
	l := fault.Long{Tokens: 140_000, Most: 131_072, Advice: "…"}
	f := fault.NewLong(l)
	return fmt.Sprintf("\n## Prompts that are too long\n\nThey are a %d `%s` with the code `%s`: in `error.code` at `POST /v1/responses`, in `error.details.error_code` elsewhere. [Prompt size](api.md#prompt-size) has the rules. At `/v1/messages` the words are those of Anthropic.\n\n- %s\n- %s\n\n",
		f.Status(), f.TypeName(), f.Reason, f.Message, messages.LongMessage(&l))
}

// malformed returns the section about requests that are not valid HTTP.
func malformed() string {
	var b strings.Builder
	b.WriteString("## Requests that are not valid HTTP\n\nTheir type is `invalid_request_error`, and they are not retried.\n\n| status | sentence |\n|---|---|\n")
	for status := 400; status < 600; status++ {
		m := httpserver.Malformed{Status: status}
		if text := m.Message(); status == http.StatusBadRequest || text != (&httpserver.Malformed{Status: http.StatusBadRequest}).Message() {
			fmt.Fprintf(&b, "| %d | %s |\n", status, text)
		}
	}
	return b.String()
}

// doors are the packages whose faults callers of the API read. Those of pages and of the command line are not here.
var doors = []string{"api", "account/auth", "ledger", "line", "prompt", "upstream", "video"}

// sentences returns what the source says for each type, sorted.
func sentences(root string) (map[string][]string, error) {
	names := map[string]string{} // of the constants of package fault, with the type that each stands for
	for i, name := range constants {
		names[name] = fault.Kind(i).String()
	}
	all := map[string][]string{}
	for _, dir := range doors {
		err := filepath.WalkDir(filepath.Join(root, "internal", dir), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if kind, text := sentence(n); text != "" {
					all[names[kind]] = append(all[names[kind]], text)
				}
				return true
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for name, list := range all {
		slices.Sort(list)
		all[name] = slices.Compact(list)
	}
	return all, nil
}

// constants are the names of the kinds, in the order of package fault. A test compares them.
var constants = strings.Fields("Internal Invalid Unauthenticated KeyDeactivated PaymentRequired PlanTooLow NotFound MethodNotAllowed Conflict TooLarge Suspended RateLimited Unavailable Timeout Forbidden BudgetExceeded")

// sentence returns the kind and the sentence of a call of fault.New, or nothing for any other node.
func sentence(n ast.Node) (kind, text string) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 || !selects(call.Fun, "New") {
		return "", ""
	}
	k, ok := call.Args[0].(*ast.SelectorExpr)
	if !ok || !selects(k, k.Sel.Name) {
		return "", ""
	}
	return k.Sel.Name, readable(literal(call.Args[1]))
}

// selects reports whether an expression is a name of package fault.
func selects(e ast.Expr, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "fault"
}

// literal returns the text of an expression. What is not known before the program runs is a verb.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			panic(err) // the parser has accepted it
		}
		return text
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return "%s"
}

var (
	verb  = regexp.MustCompile(`%(\[\d+\])?[a-z]`)
	words = regexp.MustCompile(`[A-Za-z]{2,}`)
)

// readable returns a format as people read its sentences, in Markdown, or "" if it says nothing without its arguments.
func readable(format string) string {
	plain := verb.ReplaceAllStringFunc(format, func(v string) string {
		if strings.HasSuffix(v, "q") {
			return `"…"`
		}
		return "…"
	})
	if len(words.FindAllString(plain, -1)) < 3 {
		return ""
	}
	return strings.NewReplacer("%%", "%", "`", "\\`", "*", "\\*", "_", "\\_", "<", "&lt;", "[", "\\[").Replace(plain)
}

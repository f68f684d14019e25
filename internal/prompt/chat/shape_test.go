package chat

import (
	"encoding/json"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
)

// spellings returns keys that encoding/json takes for a field of the given name, without the name itself.
func spellings(name string) (all []string) {
	for i := range name {
		c := name[i]
		if c < 'a' || c > 'z' {
			continue
		}
		head, tail := name[:i], name[i+1:]
		odd := []string{string(c - 'a' + 'A'), fmt.Sprintf(`\u%04x`, c-'a'+'A')}
		switch c {
		case 's':
			odd = append(odd, "ſ", `\u017f`)
		case 'k':
			odd = append(odd, "\u212a", `\u212A`)
		}
		for _, o := range odd {
			all = append(all, head+o+tail)
		}
	}
	return append(all, strings.ToUpper(name))
}

// lists are the keys whose values are arrays.
var lists = map[string]bool{"messages": true, "content": true, "tool_calls": true, "tools": true}

// eachKey calls visit for every key of a Shape, with the text of a body in front of it and behind.
func eachKey(s Shape, before, after, path string, visit func(before, key, after, path string)) {
	for key, inner := range s {
		visit(before+"{", key, "}"+after, path+key)
		if inner != nil {
			open, closing, step := `{"`+key+`":`, "}", path+key+"."
			if lists[key] {
				open, closing, step = open+"[", "]"+closing, path+key+"[0]."
			}
			eachKey(inner, before+open, closing+after, step, visit)
		}
	}
}

// Every key of a request is refused in every other spelling, wherever it stands, by the path at which it stands.
func TestOtherSpellings(t *testing.T) {
	t.Parallel()
	keys := 0
	eachKey(requestShape, "", "", "", func(before, key, after, path string) {
		keys++
		for _, spelling := range spellings(key) {
			for _, value := range []string{`1`, `"x"`, `{}`, `[]`, `null`} {
				body := before + `"` + spelling + `":` + value + after
				f := fault.From(func() error { _, err := Parse([]byte(body)); return err }())
				step := strings.LastIndexByte(path, '.') + 1
				if f.Kind != fault.Invalid || !strings.HasPrefix(f.Param, strings.TrimSuffix(path[:step], ".")) || !strings.Contains(f.Message, "is "+key+" in another spelling") {
					t.Errorf("Parse(%s) = %v at %q: %s; want a 400 about %s", body, f.Kind, f.Param, f.Message, path)
				}
			}
		}
	})
	if keys < 200 {
		t.Errorf("there are %d keys, want at least 200", keys)
	}
}

// Keys that are the caller's own may differ in case alone.
func TestOwnKeys(t *testing.T) {
	t.Parallel()
	const own = `{"A":1,"a":2,"Model":"x","model":"y","ſtream":true,"Type":"object","type":"object"}`
	const hi = `{"role":"user","content":"hi"}`
	for _, body := range []string{
		`{"model":"m","messages":[` + hi + `],"metadata":` + own + `,"logit_bias":` + own + `}`,
		`{"model":"m","messages":[` + hi + `],"unheard_of":` + own + `,"UnheardOf":1,"chat_template_kwargs":` + own + `}`,
		`{"model":"m","messages":[` + hi + `],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":` + own + `}}}]}`,
		`{"model":"m","messages":[` + hi + `],"tools":[{"function":{"name":"f","parameters":` + own + `},"type":"function"}]}`,
		`{"model":"m","messages":[` + hi + `],"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":` + own + `}}}`,
		`{"model":"m","messages":[` + hi + `],"tools":[{"type":"mcp","server_url":"https://example.com","headers":{"Type":"a","Server_Url":"b"}}]}`,
	} {
		if _, err := Parse([]byte(body)); err != nil {
			t.Errorf("Parse(%s) = %v, want success", body, err)
		}
	}
}

// What the parser looks for is in a Shape; otherwise another spelling of it would be taken for a key that nobody knows.
func TestShapesAreComplete(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	eachKey(requestShape, "", "", "", func(_, key, _, _ string) {
		known[key] = true
		if key != strings.ToLower(key) || len(key) > longestKey {
			t.Errorf("the key %q of a shape is too long, or not in lower case", key)
		}
	})
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		tree, err := goparser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			s, ok := n.(*ast.SwitchStmt)
			if !ok || !readsKey(s.Tag) {
				return true
			}
			for _, clause := range s.Body.List {
				for _, e := range clause.(*ast.CaseClause).List {
					lit, ok := e.(*ast.BasicLit)
					if !ok {
						continue
					}
					found++
					if name, _ := strconv.Unquote(lit.Value); !known[name] {
						t.Errorf("%s reads the key %s, which no shape has", file.Name(), lit.Value)
					}
				}
			}
			return true
		})
	}
	if found < 50 {
		t.Errorf("found %d keys in the source, want at least 50", found)
	}
}

// readsKey reports whether an expression is string(p.key) or string(name).
func readsKey(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return false
	}
	if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "string" {
		return false
	}
	switch arg := call.Args[0].(type) {
	case *ast.SelectorExpr:
		return arg.Sel.Name == "key"
	case *ast.Ident:
		return arg.Name == "name"
	}
	return false
}

// An upstream that reads as encoding/json does sees what was admitted: bodies with keys in random spellings are either
// refused, or mean the same to both.
func TestReadersAgree(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	keys := []struct{ name, value string }{
		{"model", `"small"`},
		{"model", `"large"`},
		{"max_tokens", "5"},
		{"max_tokens", "900"},
		{"n", "2"},
		{"stream", "true"},
		{"messages", `[{"role":"user","content":"hi"}]`},
		{"messages", `[{"role":"user","content":"hi"},{"role":"user","content":"more"}]`},
		{"messages", `[{"role":"user","content":"hi","KEY":"other"}]`},
		{"tools", `[{"type":"function","function":{"name":"f"}}]`},
		{"tools", `[{"type":"function","function":{"name":"f","KEY":"other"}}]`},
		{"unheard_of", "1"},
	}
	nested := []string{"content", "role", "name", "parameters", "unheard_of"}
	accepted := 0
	for range 30_000 {
		var members []string
		for range 2 + r.IntN(5) {
			k := keys[r.IntN(len(keys))]
			value := strings.Replace(k.value, "KEY", respell(r, nested[r.IntN(len(nested))]), 1)
			members = append(members, `"`+respell(r, k.name)+`":`+value)
		}
		body := "{" + strings.Join(members, ",") + "}"
		req, err := Parse([]byte(body))
		if err != nil {
			continue
		}
		accepted++
		var seen struct {
			Model     string `json:"model"`
			MaxTokens int    `json:"max_tokens"`
			N         int    `json:"n"`
			Messages  []struct {
				Role    string `json:"role"`
				Content string `json:"content"`
			} `json:"messages"`
			Tools []struct {
				Function struct {
					Name string `json:"name"`
				} `json:"function"`
			} `json:"tools"`
		}
		up := req.AppendUpstream(nil, Patch{Model: "admitted"})
		if err := json.Unmarshal(up, &seen); err != nil {
			t.Fatalf("seed %d: %s cannot be read: %v", seed, up, err)
		}
		contents := slices.EqualFunc(seen.Messages, req.Messages, func(a struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}, b Message,
		) bool {
			return a.Content == b.Content.Text() && a.Role == "user"
		})
		if seen.Model != "admitted" || seen.MaxTokens != req.MaxTokens || max(1, seen.N) != req.N || !contents || len(seen.Tools) != len(req.Tools) ||
			len(seen.Tools) > 0 && seen.Tools[0].Function.Name != req.Tools[0].Function.Name {
			t.Fatalf("seed %d: %s is read as %+v by encoding/json, and as %+v here", seed, body, seen, req)
		}
	}
	if accepted < 100 {
		t.Errorf("%d bodies were accepted, want at least 100", accepted)
	}
}

// respell returns a key as it is, mostly, or another spelling of it.
func respell(r *rand.Rand, name string) string {
	if r.IntN(8) > 0 {
		return name
	}
	all := spellings(name)
	return all[r.IntN(len(all))]
}

package app_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/operate/admin"
)

// boundsPage holds the table of bounds, and code is the folder that its last column is relative to, except for what is in
// the sandbox.
const (
	boundsPage = "../../docs/bounds.md"
	code       = ".."
)

// bound is a row of the table.
type bound struct {
	what   string
	n      int64  // how many; a time in nanoseconds
	beyond string // what whatever is beyond it meets
	where  string // "folder/file.go constant", "folder constant", or a field of the configuration
}

// try checks a bound: what is within it passes, and what is beyond it meets what the row says.
type try func(t *testing.T, s *stage, b bound)

// boundTries has one try for each row. Tries that are in other packages, because they need hours, gigabytes or
// what is not exported, are named by triedBy.
func boundTries() map[string]try {
	all := map[string]try{}
	for _, some := range []map[string]try{bodyTries, chatTries, toolTries, signinTries, otherTries, ticketTries, staffTries, statusTries, passkeyTries} {
		for what, run := range some {
			if all[what] != nil {
				panic("two tries of " + what)
			}
			all[what] = run
		}
	}
	return all
}

// derived are the rows whose constant is not the bound itself; their tries compute it.
var derived = map[string]bool{"connections of one public address": true}

// TestBounds tries every row of the table in docs/bounds.md with the bound that stands there.
func TestBounds(t *testing.T) {
	t.Parallel()
	rows := readBounds(t)
	tries := boundTries()
	for what := range maps.Keys(tries) {
		if _, ok := rows[what]; !ok {
			t.Errorf("the try of %q has no row in %s", what, boundsPage)
		}
	}
	s := newStage(t, rows)
	t.Run("rows", func(t *testing.T) { // returns when all are done
		for what, b := range rows {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				run := tries[what]
				if run == nil {
					t.Fatal("this row of the page has no try")
				}
				b.checkConstant(t)
				run(t, s, b)
			})
		}
	})
}

// readBounds reads the table.
func readBounds(t *testing.T) map[string]bound {
	t.Helper()
	page, err := os.ReadFile(boundsPage)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bound{}
	for line := range strings.Lines(between(string(page), "<!-- bounds -->\n", "<!-- /bounds -->")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 {
			t.Fatalf("the row %q has %d cells, want 5", line, len(cells))
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "what" || cells[0] == "---" {
			continue
		}
		n, ok := parseBound(cells[1])
		if _, twice := rows[cells[0]]; twice || !ok {
			t.Fatalf("the row %q is there twice, or its bound is no number with a known unit", line)
		}
		rows[cells[0]] = bound{cells[0], n, cells[2], strings.ReplaceAll(cells[4], "`", "")}
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no table of bounds", boundsPage)
	}
	return rows
}

var (
	boundForm = regexp.MustCompile(`^(\d{1,3}(?:,\d{3})*)(?: ([A-Za-z/]+))?$`)
	units     = map[string]int64{
		"": 1, "bytes": 1, "characters": 1, "KiB": 1 << 10, "KiB/s": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
		"minute": int64(time.Minute), "minutes": int64(time.Minute),
	}
)

func parseBound(text string) (int64, bool) {
	m := boundForm.FindStringSubmatch(text)
	if m == nil || units[m[2]] == 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64)
	return n * units[m[2]], err == nil && n > 0
}

// status is the status with which what is beyond the bound is refused.
func (b bound) status(t *testing.T) int {
	t.Helper()
	first, _, _ := strings.Cut(b.beyond, " ")
	status, err := strconv.Atoi(first)
	if err != nil {
		t.Fatalf("beyond the bound is %q, want a status", b.beyond)
	}
	return status
}

// says fails unless the page says that this is what happens beyond the bound.
func (b bound) says(t *testing.T, beyond string) {
	t.Helper()
	if b.beyond != beyond {
		t.Errorf("the page says that beyond the bound is %q; what is tried here is %q", b.beyond, beyond)
	}
}

// check fails unless what is within the bound got the status and what is beyond it got that of the row.
func (b bound) check(t *testing.T, within reply, want int, beyond reply) {
	t.Helper()
	if within.status != want {
		t.Errorf("within %d: %d %.300s, want %d", b.n, within.status, within.body, want)
	}
	if status := b.status(t); beyond.status != status {
		t.Errorf("beyond %d: %d %.300s, want %d", b.n, beyond.status, beyond.body, status)
	}
}

// checkConstant compares the bound with the constant that the row names.
func (b bound) checkConstant(t *testing.T) {
	t.Helper()
	path, name, ok := strings.Cut(b.where, " ")
	if !ok {
		return // a field of the configuration: its try looks at the default
	}
	value, found := constantOf(t, path, name)
	switch {
	case !found:
		t.Errorf("%s declares no %s", path, name)
	case value != nil && !derived[b.what]:
		if n, exact := constant.Int64Val(value); !exact || n != b.n {
			t.Errorf("%s of %s is %s, and the page says %d", name, path, value, b.n)
		}
	}
}

// checkAfter compares the "after 30 s" of the row with a constant.
func (b bound) checkAfter(t *testing.T, path, name string) {
	t.Helper()
	value, found := constantOf(t, path, name)
	if !found || value == nil {
		t.Fatalf("%s declares no constant %s", path, name)
	}
	n, _ := constant.Int64Val(value)
	if after := fmt.Sprintf(" after %d s", time.Duration(n)/time.Second); !strings.HasSuffix(b.beyond, after) {
		t.Errorf("%s is %v, and the page says %q", name, time.Duration(n), b.beyond)
	}
}

// constantOf finds a constant of a package, or of one of its files, and its value; nil: it is a function.
func constantOf(t *testing.T, path, name string) (value constant.Value, found bool) {
	t.Helper()
	if strings.HasPrefix(path, "sandbox/") {
		path = filepath.Join("..", path)
	}
	path = filepath.Join(code, path)
	dir := path
	if filepath.Ext(path) == ".go" {
		dir = filepath.Dir(path)
	}
	consts := map[string]ast.Expr{}
	eachFile(t, dir, func(file string, f *ast.File) {
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				found = found || d.Name.Name == name && d.Recv == nil
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					v, ok := spec.(*ast.ValueSpec)
					if !ok || d.Tok != token.CONST {
						continue
					}
					for i, ident := range v.Names {
						if i < len(v.Values) {
							consts[ident.Name] = v.Values[i]
						}
						found = found || ident.Name == name && (dir == path || file == path)
					}
				}
			}
		}
	})
	if consts[name] == nil {
		return nil, found
	}
	return evaluate(t, consts, consts[name]), found
}

// eachFile parses the files of a package, without its tests.
func eachFile(t *testing.T, dir string, with func(file string, f *ast.File)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no Go files, %v", dir, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		with(file, f)
	}
}

// evaluate returns the value of a constant's expression: arithmetic with whole numbers and times.
func evaluate(t *testing.T, consts map[string]ast.Expr, e ast.Expr) constant.Value {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.ParenExpr:
		return evaluate(t, consts, e.X)
	case *ast.Ident:
		if known := consts[e.Name]; known != nil {
			return evaluate(t, consts, known)
		}
	case *ast.SelectorExpr:
		if d, ok := map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}[e.Sel.Name]; ok {
			return constant.MakeInt64(int64(d))
		}
	case *ast.BinaryExpr:
		x, y := evaluate(t, consts, e.X), evaluate(t, consts, e.Y)
		switch e.Op {
		case token.SHL:
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, token.SHL, uint(n))
		case token.QUO:
			return constant.BinaryOp(x, token.QUO_ASSIGN, y) // of whole numbers
		default:
			return constant.BinaryOp(x, e.Op, y)
		}
	}
	t.Fatalf("the constant has an expression %T that cannot be evaluated here", e)
	return nil
}

// triedBy is for a bound whose behavior is tried by a test of another package. The row's constant was compared
// already.
func triedBy(dir, test, beyond string) try {
	return func(t *testing.T, _ *stage, b bound) {
		t.Helper()
		b.says(t, beyond)
		files, err := filepath.Glob(filepath.Join(code, dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range f.Decls {
				if d, ok := decl.(*ast.FuncDecl); ok && d.Name.Name == test && d.Recv == nil {
					return
				}
			}
		}
		t.Errorf("internal/%s has no %s, which is to try this bound", dir, test)
	}
}

// stage is what the tries share: a running service whose accounts have no limits of their own.
type stage struct {
	running *node
	rows    map[string]bound
	made    atomic.Int64
}

func newStage(t *testing.T, rows map[string]bound) *stage {
	t.Helper()
	up := obedient(t)
	site := newSite(t, fmt.Sprintf(`
sandbox: true
signup: open
trusted_proxies: [127.0.0.1/32]
mcp: {allow_hosts: [127.0.0.1]}
router: {feedback: true}
billing: {processor: stripe, secret_key: sk_test_1, webhook_secret: whsec_1, api_url: "http://127.0.0.1:1"}
plans: {scale: {requests_per_minute: unlimited, tokens_per_minute: unlimited, concurrent: unlimited, monthly_units: unlimited}}
providers:
  - {name: lab, kind: openai, base_url: %[1]q, allow_image_urls: true}
  - {name: whole, kind: openai, base_url: %[1]q}
  - {name: events, kind: openai, base_url: %[1]q}
models:
  - {id: m, provider: lab, plan: free, context_length: 100000000, max_output: 1000, tool_calling: true}
  - {id: %[2]q, provider: lab, upstream: m, plan: free, context_length: 1000, max_output: 100}
  - {id: whole, provider: whole, plan: free, context_length: 1000, max_output: 100}
  - {id: events, provider: events, plan: free, context_length: 1000, max_output: 100}
`, up, strings.Repeat("m", int(rows["model id"].n))))
	site.patience = 1 // nobody is asked twice
	return &stage{running: site.start(t), rows: rows}
}

// node is the running service, for one try.
func (s *stage) node(t *testing.T) *node {
	n := *s.running
	n.t, n.taken = t, nil
	return &n
}

// email is an address that nobody else has.
func (s *stage) email() string { return fmt.Sprintf("a%d@example.com", s.made.Add(1)) }

// account makes an account without limits.
func (s *stage) account(t *testing.T) admin.CreatedAccount {
	t.Helper()
	return must[admin.CreatedAccount](s.node(t), "account.create", admin.NewAccount{Actor: "t", Email: s.email(), Plan: "scale"})
}

// ask sends a chat request with more members than those that every request has.
func (s *stage) ask(t *testing.T, key, do, more string) reply {
	t.Helper()
	return s.node(t).request("POST", chatPath, key, chatBody("m", do, more))
}

func chatBody(model, do, more string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"please %s."}]%s}`, model, do, more)
}

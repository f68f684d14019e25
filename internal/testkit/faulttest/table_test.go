package faulttest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

// tablePages have a table of faults each.
var tablePages = []string{"docs/faults.md", "docs/faults-outside.md"}

// TestTable compares the tables with the code: every test that they name exists, and every fault of this package has a
// row.
func TestTable(t *testing.T) {
	t.Parallel()
	named := map[string]bool{} // by "folder Test"
	for _, page := range tablePages {
		readTable(t, page, named)
	}
	if len(named) < 40 {
		t.Errorf("the tables have %d faults, want 40 at least", len(named))
	}
	for _, f := range upstreamFaults(t) {
		wants(t, named, "TestUpstreams/"+f.name)
	}
	for _, f := range callerFaults(nil) {
		wants(t, named, "TestCallers/"+f.name)
	}
}

// readTable adds the tests that the table of a page names, and checks that they exist.
func readTable(t *testing.T, page string, named map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "<!-- faults -->\n")
	table, _, _ = strings.Cut(table, "<!-- /faults -->")
	if table == "" {
		t.Errorf("%s has no table of faults", page)
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 {
			t.Fatalf("the row %q has %d cells, want 5", line, len(cells))
		}
		test := strings.TrimSpace(cells[4])
		if test == "" || test == "test" || strings.HasPrefix(test, "---") { // a heading
			continue
		}
		folder, name, ok := strings.Cut(strings.ReplaceAll(test, "`", ""), " ")
		function, _, _ := strings.Cut(name, "/")
		if !ok || !exists(t, folder, function) {
			t.Errorf("%s: there is no such test: %q", strings.TrimSpace(cells[0]), test)
		}
		named[folder+" "+name] = true
	}
}

func wants(t *testing.T, named map[string]bool, test string) {
	t.Helper()
	if name := "internal/testkit/faulttest " + strings.ReplaceAll(test, " ", "_"); !named[name] {
		t.Errorf("%s has no row in %s", name, strings.Join(tablePages, " or "))
	}
}

// exists reports whether a folder has a test.
func exists(t *testing.T, folder, function string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Name.Name == function && d.Recv == nil {
				return true
			}
		}
	}
	return false
}

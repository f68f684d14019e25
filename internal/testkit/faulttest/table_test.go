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

const (
	tablePage = "../../../docs/faults.md"
	root      = "../../.."
)

// TestTable holds docs/faults.md against the code: every test that it names exists, and every fault of this package has a
// row.
func TestTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(tablePage)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "<!-- faults -->\n")
	table, _, _ = strings.Cut(table, "<!-- /faults -->")
	named := map[string]bool{} // by "folder Test"
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 {
			t.Fatalf("the row %q has %d cells, want 5", line, len(cells))
		}
		test := strings.TrimSpace(cells[4])
		if test == "" || test == "test" || strings.HasPrefix(test, "---") { // a heading
			continue
		}
		rows++
		folder, name, ok := strings.Cut(strings.ReplaceAll(test, "`", ""), " ")
		function, _, _ := strings.Cut(name, "/")
		if !ok || !exists(t, folder, function) {
			t.Errorf("%s: there is no such test: %q", strings.TrimSpace(cells[0]), test)
		}
		named[folder+" "+name] = true
	}
	if rows < 40 {
		t.Errorf("the table has %d faults, want 40 at least", rows)
	}
	for _, f := range upstreamFaults(t) {
		wants(t, named, "TestUpstreams/"+f.name)
	}
	for _, f := range callerFaults(nil) {
		wants(t, named, "TestCallers/"+f.name)
	}
}

func wants(t *testing.T, named map[string]bool, test string) {
	t.Helper()
	if name := "internal/testkit/faulttest " + strings.ReplaceAll(test, " ", "_"); !named[name] {
		t.Errorf("%s has no row in %s", name, tablePage)
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

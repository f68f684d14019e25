package archtest

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree is the repository as the rules see it.
type tree struct {
	fset     *token.FileSet
	packages map[string]*pkg   // of the main module, by folder: "internal/prompt/chat"
	texts    map[string][]byte // every text file that belongs to the project, by path
	exists   map[string]bool   // every file and folder of the project, pictures included
}

// pkg is one folder of Go files.
type pkg struct {
	path  string
	name  string // empty where the folder has only tests
	files []*file
}

type file struct {
	path      string
	test      bool
	generated bool
	syntax    *ast.File
}

// paths returns the folders of all packages, in order.
func (t *tree) paths() []string { return slices.Sorted(maps.Keys(t.packages)) }

// source yields the files of the package that hold hand-written product code.
func (p *pkg) source(yield func(*file) bool) {
	for _, f := range p.files {
		if !f.test && !f.generated && !yield(f) {
			return
		}
	}
}

// load reads the repository under root. It opens every file itself and runs no other program, so
// that the go command knows when a cached result is out of date.
func load(root string) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), packages: map[string]*pkg{}, texts: map[string][]byte{}, exists: map[string]bool{}}
	var nested []string // folders of other modules
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if foreign(rel) {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && rel != "." {
				nested = append(nested, rel+"/")
			}
			t.exists[rel] = true
			return nil
		}
		if !d.Type().IsRegular() || rel == ".git" { // a worktree's is a file
			return nil
		}
		t.exists[rel] = true
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a file that came and went while we read
		}
		if err != nil {
			return err
		}
		if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			return nil // not text
		}
		t.texts[rel] = text
		inNested := slices.ContainsFunc(nested, func(dir string) bool { return strings.HasPrefix(rel, dir) })
		if path.Ext(rel) == ".go" && !inNested && !strings.Contains("/"+rel, "/testdata/") {
			return t.parse(rel, text)
		}
		return nil
	})
	return t, err
}

// parse adds a Go file to its package.
func (t *tree) parse(rel string, text []byte) error {
	syntax, err := parser.ParseFile(t.fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(rel)
	p := t.packages[dir]
	if p == nil {
		p = &pkg{path: dir}
		t.packages[dir] = p
	}
	f := &file{path: rel, test: strings.HasSuffix(rel, "_test.go"), generated: ast.IsGenerated(syntax), syntax: syntax}
	if !f.test {
		p.name = syntax.Name.Name
	}
	p.files = append(p.files, f)
	return nil
}

// foreign reports whether a folder is no part of the project: what git ignores, and .git itself.
func foreign(rel string) bool {
	switch rel {
	case ".git", "bin", "data", "coverage":
		return true
	}
	return path.Base(rel) == "node_modules"
}

// repository returns the root of the repository that the test runs in.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("archtest expects to lie two folders below go.mod: %v", err)
	}
	return dir
}

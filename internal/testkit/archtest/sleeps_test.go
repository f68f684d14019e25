package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
)

// bubble is the comment that allows a sleep in a helper that runs only inside a synctest bubble.
const bubble = "the bubble's clock"

// checkSleeps reports tests that sleep by the real clock: they are slow on a fast machine and fail on a
// busy one. In a function that is handed to synctest.Test, or to a function of the same package that calls
// it, the clock is the bubble's; other helpers that run there say so on the line. A receive from time.After
// that stands alone is a sleep as well; in a select it is a deadline, or the pause between two looks.
func checkSleeps(t *tree) (problems []string) {
	folders := map[string][]*ast.File{}
	for _, name := range slices.Sorted(maps.Keys(t.texts)) {
		if !strings.HasSuffix(name, "_test.go") || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		// Parsed again, because the packages of a tree are those of the main module alone.
		syntax, err := parser.ParseFile(t.fset, name, t.texts[name], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		folders[path.Dir(name)] = append(folders[path.Dir(name)], syntax)
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		makers := bubbleMakers(folders[dir])
		for _, f := range folders[dir] {
			problems = append(problems, t.sleeps(f, makers)...)
		}
	}
	return problems
}

// bubbleMakers returns the names of functions that call synctest.Test.
func bubbleMakers(files []*ast.File) map[string]bool {
	makers := map[string]bool{}
	for _, f := range files {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && isCall(call, "synctest", "Test") {
					makers[fn.Name.Name] = true
				}
				return true
			})
		}
	}
	return makers
}

// sleeps returns the problems of one file.
func (t *tree) sleeps(f *ast.File, makers map[string]bool) (problems []string) {
	marked := map[int]bool{}
	for _, group := range f.Comments {
		for _, c := range group.List {
			if strings.Contains(c.Text, bubble) {
				marked[t.fset.Position(c.Pos()).Line] = true
			}
		}
	}
	var look func(ast.Node) bool
	look = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); isCall(n, "synctest", "Test") || ok && makers[name.Name] {
				return false
			}
			if isCall(n, "time", "Sleep") && !marked[t.fset.Position(n.Pos()).Line] {
				problems = append(problems, t.at(n, "a test sleeps: wait for a channel or a condition, or use testing/synctest (a helper for tests in a bubble says %q on the line)", bubble))
			}
		case *ast.ExprStmt:
			receive, ok := n.X.(*ast.UnaryExpr)
			if !ok || receive.Op != token.ARROW {
				break
			}
			if call, ok := receive.X.(*ast.CallExpr); ok && isCall(call, "time", "After") && !marked[t.fset.Position(n.Pos()).Line] {
				problems = append(problems, t.at(n, "a test waits for time.After alone, which is a sleep: wait for a channel or a condition"))
			}
		case *ast.CommClause: // its receive is part of a select
			for _, s := range n.Body {
				ast.Inspect(s, look)
			}
			return false
		}
		return true
	}
	ast.Inspect(f, look)
	return problems
}

// isCall reports whether an expression calls a function of a package, by the package's usual name.
func isCall(call *ast.CallExpr, pkg, name string) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

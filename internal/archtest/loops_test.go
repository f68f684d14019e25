package archtest

import (
	"go/ast"
	"strings"
)

// checkLoops refuses loops over rows or lines that never ask why they ended: what broke off would pass
// for all there is.
func checkLoops(t *tree) (problems []string) {
	for _, dir := range t.paths() {
		for f := range t.packages[dir].source {
			steps := map[string]bool{"Next": imports(f, "database/sql"), "Scan": imports(f, "bufio")}
			for _, decl := range f.syntax.Decls {
				loops, asked := map[string]ast.Node{}, map[string]bool{}
				ast.Inspect(decl, func(n ast.Node) bool {
					if loop, ok := n.(*ast.ForStmt); ok && loop.Cond != nil {
						if on, method := plainCall(loop.Cond); steps[method] {
							loops[on] = loop
						}
					}
					if e, ok := n.(ast.Expr); ok {
						if on, method := plainCall(e); method == "Err" {
							asked[on] = true
						}
					}
					return true
				})
				for on, loop := range loops {
					if !asked[on] {
						problems = append(problems, t.at(loop, "the loop over %s never asks %s.Err()", on, on))
					}
				}
			}
		}
	}
	return problems
}

// plainCall takes a call such as rows.Next() apart; empty where it is none.
func plainCall(e ast.Expr) (on, method string) {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) > 0 {
		return "", ""
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return x.Name, s.Sel.Name
}

func imports(f *file, path string) bool {
	for _, i := range f.syntax.Imports {
		if strings.Trim(i.Path.Value, `"`) == path {
			return true
		}
	}
	return false
}

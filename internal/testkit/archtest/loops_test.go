package archtest

import (
	"go/ast"
	"strings"
)

// checkLoops reports loops over rows or lines that do not check why they ended. If reading failed
// halfway, the part that was read would be taken for everything.
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

// plainCall returns the two names of a call such as rows.Next(), or empty strings for any other expression.
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

package archtest

import (
	"go/ast"
	"slices"
	"strings"
)

// pooled are the files that may name a connection pool of database/sql. Everything else goes through sqlstore's own
// pool, which has no method without a deadline.
var pooled = []string{
	"internal/store/sqlstore/pool.go",     // bounds every use
	"internal/store/sqlstore/sqlstore.go", // opens and closes
	"internal/store/sqlstore/backup.go",   // copies files of SQLite
	"internal/store/sqlstore/snapshot.go", // opens one of them to look at it
	"internal/kit/telemetry/metrics.go",   // reads the figures of pools
}

// checkDeadlines reports product code that could wait for a database for ever: a pool of database/sql outside of the
// files above, and a transaction whose work does not get the transaction's own context.
func checkDeadlines(t *tree) (problems []string) {
	for _, dir := range t.paths() {
		if testSupport(dir) || !strings.HasPrefix(dir, "internal/") && !strings.HasPrefix(dir, "cmd/") {
			continue
		}
		for f := range t.packages[dir].source {
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					unbounded := isName(n, "sql", "DB") || isName(n, "sql", "Open") || isName(n, "sql", "OpenDB") || n.Sel.Name == "db"
					if unbounded && imports(f, "database/sql") && !slices.Contains(pooled, f.path) {
						problems = append(problems, t.at(n, "a connection pool without deadlines: use the pool of package sqlstore"))
					}
				case *ast.FuncLit:
					if takesTx(n.Type) && !(len(n.Type.Params.List) > 0 && len(n.Type.Params.List[0].Names) == 1 && n.Type.Params.List[0].Names[0].Name == "ctx") {
						problems = append(problems, t.at(n, "the work of a transaction takes its context as ctx, so that no statement outlives its deadline"))
					}
				}
				return true
			})
		}
	}
	return problems
}

// isName reports whether an expression is pkg.name.
func isName(s *ast.SelectorExpr, pkg, name string) bool {
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg && s.Sel.Name == name
}

// takesTx reports whether a function has a parameter of type *sql.Tx.
func takesTx(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		star, ok := p.Type.(*ast.StarExpr)
		if !ok {
			return false
		}
		s, ok := star.X.(*ast.SelectorExpr)
		return ok && isName(s, "sql", "Tx")
	})
}

package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// emptyNames are package names that say nothing about what is inside.
var emptyNames = []string{"util", "utils", "common", "helpers", "types", "core", "base", "misc"}

var getter = regexp.MustCompile(`^Get[A-Z]`)

// checkNames reports names that mean nothing.
func checkNames(t *tree) (problems []string) {
	for _, dir := range t.paths() {
		for _, element := range strings.Split(dir, "/") {
			if slices.Contains(emptyNames, element) {
				problems = append(problems, fmt.Sprintf("package %s: %q says nothing; name the package after what it does, or put its code where it is used", dir, element))
			}
		}
		for f := range t.packages[dir].source {
			for _, decl := range f.syntax.Decls {
				switch decl := decl.(type) {
				case *ast.FuncDecl:
					if getter.MatchString(decl.Name.Name) {
						problems = append(problems, t.at(decl.Name, "%s: drop the Get", decl.Name.Name))
					}
				case *ast.GenDecl:
					for _, spec := range decl.Specs {
						s, ok := spec.(*ast.TypeSpec)
						if ok && (strings.Contains(s.Name.Name, "Manager") || strings.Contains(s.Name.Name, "Helper")) {
							problems = append(problems, t.at(s.Name, "type %s: name it after what it is or does, not Manager or Helper", s.Name.Name))
						}
					}
				}
			}
		}
	}
	return problems
}

// checkGlobals reports code that runs or changes without being called: init functions, and variables
// that any package can assign to.
func checkGlobals(t *tree) (problems []string) {
	for _, dir := range t.paths() {
		for f := range t.packages[dir].source {
			for _, decl := range f.syntax.Decls {
				switch decl := decl.(type) {
				case *ast.FuncDecl:
					if decl.Name.Name == "init" && decl.Recv == nil {
						problems = append(problems, t.at(decl.Name, "func init: do it in a constructor, called by whoever needs it"))
					}
				case *ast.GenDecl:
					if decl.Tok != token.VAR {
						continue
					}
					for _, spec := range decl.Specs {
						s := spec.(*ast.ValueSpec) // all that a var declaration holds
						for _, name := range s.Names {
							if name.IsExported() && !strings.HasPrefix(name.Name, "Err") && !embedded(decl, s) {
								problems = append(problems, t.at(name, "exported variable %s: make it a constant or a function, or pass it as a parameter", name.Name))
							}
						}
					}
				}
			}
		}
	}
	return problems
}

// embedded reports whether the compiler fills a variable from files.
func embedded(decl *ast.GenDecl, spec *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{decl.Doc, spec.Doc} {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// at returns a problem with its position in the source.
func (t *tree) at(node ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s: %s", t.fset.Position(node.Pos()), fmt.Sprintf(format, args...))
}

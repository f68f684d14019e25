package archtest

import (
	"fmt"
	"path"
	"strings"
)

// shortestDoc is the minimum length of a package comment, in bytes. Less cannot say what the package is
// and what it is not.
const shortestDoc = 60

// checkDocs checks that every package has a package comment of at least shortestDoc, in the usual form.
func checkDocs(t *tree) (problems []string) {
	for _, dir := range t.paths() {
		p := t.packages[dir]
		if p.name == "" {
			continue
		}
		opening := "Package " + p.name + " "
		if p.name == "main" {
			opening = "Command " + path.Base(dir) + " "
		}
		var doc string
		for _, f := range p.files {
			if !f.test && f.syntax.Doc != nil {
				doc = f.syntax.Doc.Text()
			}
		}
		switch {
		case doc == "":
			problems = append(problems, fmt.Sprintf("package %s has no package comment: say what it is, the one idea needed to read it, and what does not belong there", dir))
		case !strings.HasPrefix(doc, opening):
			problems = append(problems, fmt.Sprintf("the comment of package %s must begin with %q", dir, opening))
		case len(doc) < shortestDoc:
			problems = append(problems, fmt.Sprintf("the comment of package %s is too short to help (%d characters, %d at least): add the idea needed to read it, or what does not belong there", dir, len(doc), shortestDoc))
		}
	}
	return problems
}

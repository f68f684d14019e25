// Command house prints how large the product's code is: lines, functions, packages, comments, interfaces and modules.
// It counts what cmd/sluice is built of, without tests, test support and generated files.
//
//	go run ./tools/house
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	Imports         []string
	Module          *struct {
		Path string
		Main bool
	}
}

// house adds up what was read.
type house struct {
	lines, code, comments int
	functions             []int
	packages              []size
	files                 []size
	wide                  []size // interfaces with more than six methods
	app                   size
	appImports            int
	modules               map[string]bool
}

// size is a name and how much of something it has.
type size struct {
	name string
	n    int
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("house: ")
	h := &house{modules: map[string]bool{}}
	if err := h.read("./cmd/sluice"); err != nil {
		log.Fatal(err)
	}
	h.print(os.Stdout)
}

// read counts the packages that a command is built of.
func (h *house) read(command string) error {
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,Imports,Module", command)
	list.Stderr = os.Stderr
	text, err := list.Output()
	if err != nil {
		return err
	}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		switch {
		case p.Module == nil: // the standard library
		case !p.Module.Main:
			h.modules[p.Module.Path] = true
		default:
			if err := h.count(&p); err != nil {
				return err
			}
		}
	}
}

func (h *house) count(p *listed) error {
	whole := size{name: p.ImportPath}
	for _, name := range p.GoFiles {
		n, err := h.countFile(filepath.Join(p.Dir, name), p.ImportPath+"/"+name)
		if err != nil {
			return err
		}
		whole.n += n
	}
	h.lines += whole.n
	h.packages = append(h.packages, whole)
	if strings.HasSuffix(p.ImportPath, "/app") {
		h.app = whole
		for _, path := range p.Imports {
			if strings.HasPrefix(path, "sluice/") {
				h.appImports++
			}
		}
	}
	return nil
}

// countFile returns the number of lines of a file, 0 if it is generated.
func (h *house) countFile(path, name string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	if ast.IsGenerated(syntax) {
		return 0, nil
	}
	n := bytes.Count(text, []byte("\n"))
	h.files = append(h.files, size{name, n})
	for line := range strings.Lines(string(text)) {
		switch line := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "//"):
			h.comments++
		case line != "":
			h.code++
		}
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			h.functions = append(h.functions, fset.Position(n.End()).Line-fset.Position(n.Pos()).Line+1)
		case *ast.TypeSpec:
			if face, ok := n.Type.(*ast.InterfaceType); ok && face.Methods.NumFields() > 6 {
				h.wide = append(h.wide, size{name + " " + n.Name.Name, face.Methods.NumFields()})
			}
		}
		return true
	})
	return n, nil
}

func (h *house) print(w io.Writer) {
	bySize := func(a, b size) int { return a.n - b.n }
	slices.SortFunc(h.packages, bySize)
	slices.SortFunc(h.files, bySize)
	slices.SortFunc(h.wide, bySize)
	slices.Sort(h.functions)
	last := func(all []size) size { return all[len(all)-1] }
	fmt.Fprintf(w, "production lines         %d\n", h.lines)
	fmt.Fprintf(w, "functions, p95 and max   %d, %d (of %d)\n", h.functions[len(h.functions)*95/100], h.functions[len(h.functions)-1], len(h.functions))
	fmt.Fprintf(w, "packages, median lines   %d, %d\n", len(h.packages), h.packages[len(h.packages)/2].n)
	fmt.Fprintf(w, "largest package          %d %s\n", last(h.packages).n, last(h.packages).name)
	fmt.Fprintf(w, "largest file             %d %s\n", last(h.files).n, last(h.files).name)
	fmt.Fprintf(w, "comment lines            %.1f %%\n", 100*float64(h.comments)/float64(h.comments+h.code))
	fmt.Fprintf(w, "interfaces of 7 or more  %d\n", len(h.wide))
	fmt.Fprintf(w, "app, and its imports     %d, %d of our own\n", h.app.n, h.appImports)
	fmt.Fprintf(w, "modules in the binary    %d\n", len(h.modules))
	for _, face := range h.wide {
		fmt.Fprintf(w, "\t%d methods: %s\n", face.n, face.name)
	}
}

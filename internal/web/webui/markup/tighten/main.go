// Command tighten rewrites the templates that templ has generated in the current folder, so that they call
// package markup. It runs after templ (see the go:generate lines) and changes nothing if it runs again.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "tighten:", err)
		os.Exit(1)
	}
}

// run rewrites the generated files in a folder.
func run(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*_templ.go"))
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		tight, err := tighten(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(name, tight, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// rewrites are applied in order. Every pattern is what templ writes, whole, so what is not recognized stays as it is.
var rewrites = []struct {
	was *regexp.Regexp
	now string
}{
	// A static text, and the check that it was written.
	{pattern(`templ_7745c5c3_Err = templruntime\.WriteString\(templ_7745c5c3_Buffer, \d+, ("(?:[^"\\]|\\.)*")\)` + checked), `markup.Raw(templ_7745c5c3_Buffer, $1)`},
	// An expression: its value and error, the place of the error, and the value, escaped.
	{pattern(expression("string", "String")), `markup.Text(templ_7745c5c3_Buffer, $1)`},
	{pattern(expression(`templ\.SafeURL`, "URL")), `markup.URL(templ_7745c5c3_Buffer, $1)`},
	// The beginning of a template, and of the children of one.
	{pattern(`templruntime\.GeneratedTemplate\(func\(templ_7745c5c3_Input templruntime\.GeneratedComponentInput\) \(templ_7745c5c3_Err error\) \{
templ_7745c5c3_W, ctx := templ_7745c5c3_Input\.Writer, templ_7745c5c3_Input\.Context
if templ_7745c5c3_CtxErr := ctx\.Err\(\); templ_7745c5c3_CtxErr != nil \{
return templ_7745c5c3_CtxErr
\}
` + buffer + `
(templ_7745c5c3_Var\d+) := templ\.GetChildren\(ctx\)
if templ_7745c5c3_Var\d+ == nil \{
templ_7745c5c3_Var\d+ = templ\.NopComponent
\}
ctx = templ\.ClearChildren\(ctx\)`), `markup.Template(func(ctx markup.Context, templ_7745c5c3_Buffer *markup.Buffer, $1 templ.Component) (templ_7745c5c3_Err error) {`},
	{pattern(`templruntime\.GeneratedTemplate\(func\(templ_7745c5c3_Input templruntime\.GeneratedComponentInput\) \(templ_7745c5c3_Err error\) \{
templ_7745c5c3_W, ctx := templ_7745c5c3_Input\.Writer, templ_7745c5c3_Input\.Context
` + buffer), `markup.Block(func(ctx markup.Context, templ_7745c5c3_Buffer *markup.Buffer) (templ_7745c5c3_Err error) {`},
	// A template that is inlined into a handler would be there twice.
	{pattern(`(\n// [^\n]*)\n(func [^\n]*\) templ\.Component \{)`), "$1\n//\n//go:noinline\n$2"},
	{pattern(`\n\n(func [^\n]*\) templ\.Component \{)`), "\n\n//go:noinline\n$1"},
	{pattern(`var _ = templruntime\.GeneratedTemplate`), ``},
	{pattern(`import templruntime "github\.com/a-h/templ/runtime"`), `import "sluice/internal/web/webui/markup"`},
}

const checked = `
if templ_7745c5c3_Err != nil \{
return templ_7745c5c3_Err
\}`

const buffer = `templ_7745c5c3_Buffer, templ_7745c5c3_IsBuffer := templruntime\.GetBuffer\(templ_7745c5c3_W\)
if !templ_7745c5c3_IsBuffer \{
defer func\(\) \{
templ_7745c5c3_BufErr := templruntime\.ReleaseBuffer\(templ_7745c5c3_Buffer\)
if templ_7745c5c3_Err == nil \{
templ_7745c5c3_Err = templ_7745c5c3_BufErr
\}
\}\(\)
\}
ctx = templ\.InitializeContext\(ctx\)`

// expression returns the pattern of an expression of one kind.
func expression(kind, join string) string {
	return `var templ_7745c5c3_Var\d+ ` + kind + `
templ_7745c5c3_Var\d+, templ_7745c5c3_Err = templ\.Join` + join + `Errs\((.*)\)
if templ_7745c5c3_Err != nil \{
return templ\.Error\{[^\n]*\}
\}
_, templ_7745c5c3_Err = templ_7745c5c3_Buffer\.WriteString\(templ\.EscapeString\(templ_7745c5c3_Var\d+\)\)` + checked
}

var lineStart = regexp.MustCompile(`\n`)

// pattern compiles the text of a few lines, each of which may be indented.
func pattern(text string) *regexp.Regexp {
	return regexp.MustCompile(lineStart.ReplaceAllString(text, `\n\t*`))
}

// tighten returns a generated file that calls package markup.
func tighten(text []byte) ([]byte, error) {
	if !bytes.Contains(text, []byte("templruntime")) {
		return text, nil
	}
	for _, r := range rewrites {
		text = r.was.ReplaceAll(text, []byte(r.now))
	}
	return format.Source(text)
}

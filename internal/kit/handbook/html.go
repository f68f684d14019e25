package handbook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// HTML returns a page as HTML. Links to other pages and files of the documentation lead below base. What lies outside is
// named, not linked: readers of a running server do not have the source. HTML of the page itself is left out, except for
// pictures in a light and a dark form.
func (b *Book) HTML(p *Page, base string) (string, error) {
	source, err := fs.ReadFile(b.files, p.file)
	if err != nil {
		return "", err
	}
	tree := parse(source)
	w := &writer{book: b, base: base, dir: path.Dir(p.file)}
	var out bytes.Buffer
	r := renderer.WithNodeRenderers(util.Prioritized(w, 100))
	err = newMarkdown(goldmark.WithRendererOptions(r)).Renderer().Render(&out, source, tree)
	return out.String(), err
}

// writer renders what we write differently than the library.
type writer struct {
	book   *Book
	base   string
	dir    string // of the page
	blocks int    // of code, for their ids
}

// RegisterFuncs implements renderer.NodeRenderer.
func (w *writer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, w.heading)
	r.Register(ast.KindLink, w.link)
	r.Register(ast.KindImage, w.image)
	r.Register(ast.KindFencedCodeBlock, w.code)
	r.Register(ast.KindCodeBlock, w.code)
	r.Register(ast.KindHTMLBlock, w.block)
	r.Register(ast.KindRawHTML, func(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) { return ast.WalkSkipChildren, nil })
	r.Register(extast.KindTable, w.table)
}

// heading writes a heading with a link to itself.
func (w *writer) heading(out util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	h := n.(*ast.Heading)
	if !entering {
		fmt.Fprintf(out, "</h%d>\n", h.Level)
		return ast.WalkContinue, nil
	}
	id, _ := h.AttributeString("id")
	anchor, _ := id.([]byte)
	fmt.Fprintf(out, `<h%d id="%s">`, h.Level, anchor)
	if h.Level > 1 {
		fmt.Fprintf(out, `<a class="anchor" href="#%s" aria-label="Link to %s">#</a>`, anchor, html.EscapeString(textOf(h, source)))
	}
	return ast.WalkContinue, nil
}

// link writes a link. One that leads out of the documentation becomes its text, and the path of the file unless the text says
// that.
func (w *writer) link(out util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	to, ok := w.resolve(string(n.(*ast.Link).Destination))
	switch page := w.pageAt(to); {
	case page != nil && entering && strings.HasSuffix(textOf(n, source), ".md"):
		// In the source a page may be called by its file.
		fmt.Fprintf(out, `<a href="%s">%s</a>`, html.EscapeString(to), html.EscapeString(page.Name))
		return ast.WalkSkipChildren, nil
	case page != nil && strings.HasSuffix(textOf(n, source), ".md"):
	case ok && entering:
		fmt.Fprintf(out, `<a href="%s">`, html.EscapeString(to))
	case ok:
		_, _ = out.WriteString("</a>")
	case !entering && !strings.HasSuffix(to, strings.TrimLeft(textOf(n, source), "./")):
		fmt.Fprintf(out, " (<code>%s</code>)", html.EscapeString(to))
	}
	return ast.WalkContinue, nil
}

// pageAt returns the page at an address, or nil.
func (w *writer) pageAt(to string) *Page {
	to, _, _ = strings.Cut(to, "#")
	id, ok := strings.CutPrefix(to, w.base+"/")
	if !ok {
		return nil
	}
	return w.book.pages[id]
}

// resolve returns the address that a link of the page leads to. ok is false if it leads to a file outside of the documentation;
// the address is then the path of the file in the repository.
func (w *writer) resolve(link string) (to string, ok bool) {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return link, false
	case u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto":
		return link, true
	case u.Scheme != "" || u.Host != "":
		return link, false
	case u.Path == "":
		return "#" + u.Fragment, true
	}
	file := path.Join("docs", w.dir, u.Path)
	inside, ok := strings.CutPrefix(file+"/", "docs/")
	if !ok {
		return file, false
	}
	inside = strings.Trim(inside, "/")
	info, err := fs.Stat(w.book.files, path.Clean("./"+inside))
	if err != nil {
		return file, false
	}
	to = w.base
	if id := idOf(inside); w.book.pages[id] != nil && (info.IsDir() || path.Ext(inside) == ".md") {
		inside = id
	} else if info.IsDir() {
		return file, false
	}
	if inside != "" && inside != "." {
		to += "/" + inside
	}
	if u.Fragment != "" {
		to += "#" + u.Fragment
	}
	return to, true
}

// image writes a picture of the page.
func (w *writer) image(out util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		w.picture(out, string(n.(*ast.Image).Destination), "", textOf(n, source))
	}
	return ast.WalkSkipChildren, nil
}

// picture writes a picture. If it has a dark form, there are two, and the style shows the one of the theme, which need not be that
// of the system. One that is not shown is not loaded.
func (w *writer) picture(out util.BufWriter, light, dark, alt string) {
	if dark == "" {
		ext := path.Ext(light)
		dark = strings.TrimSuffix(light, ext) + "-dark" + ext
	}
	light, ok := w.pictureAt(light)
	if !ok {
		_, _ = out.WriteString(html.EscapeString(alt)) // nothing is loaded from other hosts
		return
	}
	const tag = `<img class="%s" src="%s" alt="%s" loading="lazy">`
	if dark, ok := w.pictureAt(dark); ok {
		fmt.Fprintf(out, tag+tag, "shot on-light", html.EscapeString(light), html.EscapeString(alt), "shot on-dark", html.EscapeString(dark), html.EscapeString(alt))
		return
	}
	fmt.Fprintf(out, tag, "shot", html.EscapeString(light), html.EscapeString(alt))
}

// pictureAt returns the address of a picture of the documentation. A hash of its content is in it, so that browsers may keep it.
func (w *writer) pictureAt(link string) (string, bool) {
	to, ok := w.resolve(link)
	if !ok || !strings.HasPrefix(to, w.base+"/") {
		return "", false
	}
	text, ok := w.book.File(strings.TrimPrefix(to, w.base+"/"))
	return to + "?v=" + Tag(text), ok
}

// Tag returns a short hash of a file, for its address.
func Tag(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// The form in which pages show a picture that is light or dark.
var (
	pictureForm = regexp.MustCompile(`(?s)^\s*<picture>(.*)</picture>\s*$`)
	darkForm    = regexp.MustCompile(`<source\s[^>]*prefers-color-scheme: dark[^>]*\bsrcset="([^"]*)"`)
	lightForm   = regexp.MustCompile(`<img\s[^>]*\bsrc="([^"]*)"`)
	altForm     = regexp.MustCompile(`<img\s[^>]*\balt="([^"]*)"`)
)

// block writes a block of HTML if it is a picture, and nothing otherwise.
func (w *writer) block(out util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	form := pictureForm.FindSubmatch(n.Lines().Value(source))
	if form == nil {
		return ast.WalkSkipChildren, nil
	}
	part := func(r *regexp.Regexp) string {
		if m := r.FindSubmatch(form[1]); m != nil {
			return html.UnescapeString(string(m[1]))
		}
		return ""
	}
	_, _ = out.WriteString("<p>")
	w.picture(out, part(lightForm), part(darkForm), part(altForm))
	_, _ = out.WriteString("</p>\n")
	return ast.WalkSkipChildren, nil
}

// code writes a block of code with a button that copies it.
func (w *writer) code(out util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	w.blocks++
	lang := ""
	if f, ok := n.(*ast.FencedCodeBlock); ok {
		lang = string(f.Language(source))
	}
	box := "code-box"
	if lang == "text" { // what programs print may be wrapped, unlike code
		box += " wraps"
	}
	fmt.Fprintf(out, `<div class="%s"><pre tabindex="0"><code id="code-%d"`, box, w.blocks)
	if lang != "" && lang != "text" {
		fmt.Fprintf(out, ` data-lang="%s"`, html.EscapeString(lang))
	}
	fmt.Fprintf(out, `>%s</code></pre><button type="button" class="small copy" data-copy="code-%d">Copy</button></div>`+"\n",
		html.EscapeString(strings.TrimRight(string(n.Lines().Value(source)), "\n")), w.blocks)
	return ast.WalkSkipChildren, nil
}

// table puts a table into a box that scrolls on a phone.
func (w *writer) table(out util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = out.WriteString(`<div class="scroll" tabindex="0"><table class="narrow">` + "\n")
	} else {
		_, _ = out.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

// File returns a file of the documentation that is no page, such as a picture.
func (b *Book) File(name string) ([]byte, bool) {
	if path.Ext(name) == ".md" || path.Ext(name) == ".go" || !fs.ValidPath(name) {
		return nil, false
	}
	text, err := fs.ReadFile(b.files, name)
	return text, err == nil
}

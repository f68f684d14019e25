// Package guide serves the documentation: its pages, their pictures and examples, and a search.
//
// The pages are part of the program, so they describe the version that runs, and need no network. They hold nothing of an
// account. What the pages say is in the folder docs; how they are read and searched is in package handbook.
package guide

import (
	"cmp"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/a-h/templ"

	"sluice/api"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/handbook"
	"sluice/internal/web/webui"
)

//go:generate go run github.com/a-h/templ/cmd/templ@v0.3.977 generate -include-version=false

// operationsAtOnce is how many operations of the API are found beside pages of the guide.
const operationsAtOnce = 3

// Path is where the guide begins.
const Path = "/docs/guide"

// Frame returns the frame around a public page.
type Frame func(w http.ResponseWriter, r *http.Request, title string) (webui.Page, webui.Opening, error)

// Guide serves the pages. It reads them when the first one is asked for.
type Guide struct {
	ui    *webui.UI
	frame Frame
	book  func() (*handbook.Book, error)

	mu   sync.Mutex
	html map[string]string // by the id of the page
}

// New returns a Guide of the documentation in files.
func New(ui *webui.UI, frame Frame, files fs.FS) *Guide {
	return &Guide{
		ui: ui, frame: frame, html: map[string]string{},
		book: sync.OnceValues(func() (*handbook.Book, error) { return handbook.Open(files) }),
	}
}

// Patterns returns the mux patterns of all paths that belong to the guide.
func Patterns() []string { return []string{Path, Path + "/{path...}"} }

// Handler returns the handler of all Patterns.
func (g *Guide) Handler() http.Handler {
	mux := http.NewServeMux()
	g.route(mux.Handle)
	// Other methods.
	mux.Handle("/", g.ui.Handle(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Allow", "GET, HEAD")
		return fault.New(fault.MethodNotAllowed, "This page is read-only.")
	}))
	return g.ui.Protect(mux)
}

// Routes returns the patterns of all routes, for a test that tries each of them.
func Routes() (list []string) {
	new(Guide).route(func(pattern string, _ http.Handler) { list = append(list, pattern) })
	return list
}

// route calls handle with every route.
func (g *Guide) route(handle func(pattern string, h http.Handler)) {
	handle("GET "+Path, g.ui.Handle(g.page))
	handle("GET "+Path+"/search", g.ui.Handle(g.search))
	handle("GET "+Path+"/{path...}", g.ui.Handle(g.page))
}

// afterLink is where a list of pages goes on behind a name: with the first letter of a text, or with code.
var afterLink = regexp.MustCompile(`</a>: [a-z]?`)

// view is the data of a page.
type view struct {
	Groups []handbook.Group
	// Page is the page that is shown; nil for the search.
	Page *handbook.Page
	// Head is the title of the page as HTML, and HTML what follows it.
	Head  string
	HTML  string
	Query string
	Hits  []handbook.Hit
	// Lost says that there is no page at the address. The hits are pages that may be meant.
	Lost bool
}

// first reports whether the view is the first page, which lists all others.
func (v *view) first() bool { return v.Page != nil && v.Page.ID == "" }

// page serves GET /docs/guide and what is below it: a page, or a file that a page shows.
func (g *Guide) page(w http.ResponseWriter, r *http.Request) error {
	book, err := g.book()
	if err != nil {
		return err
	}
	id := r.PathValue("path")
	if text, ok := book.File(id); ok {
		webui.ServeText(w, r, path.Base(id), text)
		return nil
	}
	page := book.Page(id)
	if page == nil {
		return g.lost(w, r, book, id)
	}
	if page.ID != id {
		http.Redirect(w, r, at(page), http.StatusMovedPermanently)
		return nil
	}
	p, o, err := g.open(w, r, page.Title)
	if err != nil {
		return err
	}
	v := view{Groups: book.Groups, Page: page}
	text, err := g.rendered(book, page)
	if err != nil {
		return err
	}
	v.Head, v.HTML = cutTitle(text)
	if v.first() {
		// What a page is about stands below its name, not behind it.
		v.HTML = afterLink.ReplaceAllStringFunc(v.HTML, func(s string) string { return "</a> " + strings.ToUpper(s[len("</a>: "):]) })
	}
	return g.ui.RenderTagged(w, r, guidePage(p, o, v))
}

// cutTitle returns the title of a page, with which it begins, and the rest.
func cutTitle(text string) (head, rest string) {
	const end = "</h1>\n"
	at := strings.Index(text, end) + len(end)
	if at < len(end) {
		return "", text
	}
	return text[:at], text[at:]
}

// marked returns a snippet as HTML. A template would put blanks around the marks.
func marked(snippet []handbook.Piece) string {
	var b strings.Builder
	for _, piece := range snippet {
		if text := templ.EscapeString(piece.Text); piece.Found {
			b.WriteString("<mark>" + text + "</mark>")
		} else {
			b.WriteString(text)
		}
	}
	return b.String()
}

// open returns the frame of a page of the guide.
func (g *Guide) open(w http.ResponseWriter, r *http.Request, title string) (webui.Page, webui.Opening, error) {
	p, o, err := g.frame(w, r, title)
	p.Path, p.Styles = Path, []string{"front.css", "guide.css"}
	return p, o, err
}

// rendered returns the HTML of a page. Pages for callers have the names of this service in their examples.
func (g *Guide) rendered(book *handbook.Book, page *handbook.Page) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text, ok := g.html[page.ID]
	if !ok {
		var err error
		if text, err = book.HTML(page, Path); err != nil {
			return "", err
		}
		g.html[page.ID] = text
	}
	if !forCallers(page.ID) {
		return text, nil
	}
	s := g.ui.Settings()
	return strings.NewReplacer("http://127.0.0.1:8080", templ.EscapeString(s.Origin), "service/auto", templ.EscapeString(s.Brand)+"/auto", "service-…", templ.EscapeString(s.Brand)+"-…",
		"<code>/docs</code> of your server", `<a href="/docs">the API reference</a>`).Replace(text), nil
}

// forCallers reports whether a page is about calling the service. On pages for operators, the same addresses are those of a
// server behind a proxy.
func forCallers(id string) bool {
	return id == "call" || strings.HasPrefix(id, "call/") || id == "api" || id == "errors"
}

// search serves GET /docs/guide/search.
func (g *Guide) search(w http.ResponseWriter, r *http.Request) error {
	book, err := g.book()
	if err != nil {
		return err
	}
	p, o, err := g.open(w, r, "Search")
	if err != nil {
		return err
	}
	query := strings.TrimSpace(r.FormValue("q"))
	query = strings.ToValidUTF8(query[:min(len(query), handbook.MaxQuery)], "")
	return g.ui.RenderTagged(w, r, guidePage(p, o, view{Groups: book.Groups, Query: query, Hits: book.Search(query)}))
}

// Find returns the sections of the guide that answer a query, for the search over everything. For anybody but an operator, pages
// about running the service come last.
func (g *Guide) Find(query string, operator bool) webui.Findings {
	found := webui.Findings{Title: "Guide"}
	book, err := g.book()
	if err != nil {
		return found // its own pages say why
	}
	for _, op := range api.Operations() {
		if call := op.Method + " " + op.Route; webui.Matches(query, op.Title, call) {
			found.List = append(found.List, webui.Finding{Path: op.Page, Text: op.Title, Note: call, Icon: "docs"})
		}
	}
	found = found.Best(query)
	found.List = found.List[:min(len(found.List), operationsAtOnce)]
	hits := book.Search(query[:min(len(query), handbook.MaxQuery)])
	if !operator {
		slices.SortStableFunc(hits, func(a, b handbook.Hit) int { return cmp.Compare(aboutRunning(a.Page), aboutRunning(b.Page)) })
	}
	for _, hit := range hits[:min(len(hits), webui.FoundAtOnce)] {
		found.List = append(found.List, webui.Finding{Path: atSection(hit.Section), Text: hit.Heading, Note: whereOf(hit.Page), Lead: plainText(hit.Snippet), Icon: "docs"})
	}
	if len(hits) > webui.FoundAtOnce {
		found.More = Path + "/search?q=" + url.QueryEscape(query)
	}
	return found
}

// plainText returns a snippet without marks.
func plainText(snippet []handbook.Piece) string {
	var b strings.Builder
	for _, piece := range snippet {
		b.WriteString(piece.Text)
	}
	return b.String()
}

// aboutRunning is 1 for pages about running the service, and 0 for those about calling it.
func aboutRunning(p *handbook.Page) int {
	folder, _, _ := strings.Cut(p.ID, "/")
	switch folder {
	case "call", "teams", "api", "errors":
		return 0
	}
	return 1
}

// whereOf says where a page is, so that findings with one name can be told apart.
func whereOf(p *handbook.Page) string {
	if p.Group == "" {
		return p.Name
	}
	return p.Group + " › " + p.Name
}

// lost replies to the request for a page that does not exist. A person sees pages that may be meant.
func (g *Guide) lost(w http.ResponseWriter, r *http.Request, book *handbook.Book, id string) error {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return fault.New(fault.NotFound, "There is no such page in the guide. %s lists all of them.", Path)
	}
	p, o, err := g.open(w, r, "No such page")
	if err != nil {
		return err
	}
	v := view{Groups: book.Groups, Hits: book.Search(id), Lost: true}
	return g.ui.RenderPublic(w, r, http.StatusNotFound, guidePage(p, o, v))
}

// at returns the address of a page.
func at(p *handbook.Page) string {
	if p.ID == "" {
		return Path
	}
	return Path + "/" + p.ID
}

// atSection returns the address of a section.
func atSection(s *handbook.Section) string {
	if s.Level == 1 {
		return at(s.Page)
	}
	return at(s.Page) + "#" + s.Anchor
}

// contents returns the headings that are listed beside a page.
func contents(p *handbook.Page) (list []handbook.Section) {
	for _, s := range p.Sections {
		if s.Level == 2 || s.Level == 3 {
			list = append(list, s)
		}
	}
	return list
}

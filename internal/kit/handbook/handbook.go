// Package handbook reads the pages of the documentation: their order, their sections, a search, and their HTML.
//
// The index page says which groups there are and which pages are in them. Everything else is derived from the Markdown.
// How a page is served is decided elsewhere; see package guide.
package handbook

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
)

// indexFile is the page that lists all others.
const indexFile = "README.md"

// Book is a set of pages. It is safe for concurrent use.
type Book struct {
	// Groups has the pages in the order of the index.
	Groups []Group

	files  fs.FS
	pages  map[string]*Page // by id
	search func() *index
}

// Group is a heading of the index and the pages below it.
type Group struct {
	Name  string
	Pages []*Page
}

// Page is one page.
type Page struct {
	// ID is the path of the file without .md and README: "call/clients", or "call" for call/README.md. The index has none.
	ID string
	// Name and Line are what the index calls the page and says of it. Without an entry there, Name is the title.
	Name, Line string
	// Group is the group of the page, or that of the page that stands for its folder; "" for the index.
	Group string
	Title string
	// Listed reports whether the index has the page.
	Listed bool
	// Sections are the parts of the page between headings. The first one begins with the title.
	Sections []Section
	// Before and After are the neighbours of a listed page; nil at the ends.
	Before, After *Page

	file string
}

// Section is a heading and the text up to the next heading.
type Section struct {
	Page    *Page
	Heading string
	Anchor  string // as GitHub makes it
	Level   int
	// Text is the text without marks. Blocks are separated by line breaks.
	Text string

	above []string // the headings that the section is below, without the title
}

// Open reads all pages of files.
func Open(files fs.FS) (*Book, error) {
	b := &Book{files: files, pages: map[string]*Page{}}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		return b.read(name)
	})
	if err != nil {
		return nil, err
	}
	if b.pages[""] == nil {
		return nil, fmt.Errorf("there is no %s", indexFile)
	}
	if err := b.order(); err != nil {
		return nil, err
	}
	b.search = sync.OnceValue(b.newIndex)
	return b, nil
}

// read adds the page of a file.
func (b *Book) read(file string) error {
	source, err := fs.ReadFile(b.files, file)
	if err != nil {
		return err
	}
	p := &Page{ID: idOf(file), file: file}
	p.Sections = sections(p, source)
	if len(p.Sections) == 0 || p.Sections[0].Level != 1 {
		return fmt.Errorf("%s does not begin with a heading of level 1", file)
	}
	p.Title = p.Sections[0].Heading
	p.Name = p.Title
	b.pages[p.ID] = p
	return nil
}

// idOf returns the id of the page in a file.
func idOf(file string) string {
	id := strings.TrimSuffix(file, ".md")
	if path.Base(id) == "README" {
		id = path.Dir(id)
	}
	if id == "." {
		return ""
	}
	return id
}

// order takes the groups from the index.
func (b *Book) order() error {
	source, err := fs.ReadFile(b.files, indexFile)
	if err != nil {
		return err
	}
	var last *Page
	for node := range children(parse(source)) {
		switch node := node.(type) {
		case *ast.Heading:
			if node.Level == 2 {
				b.Groups = append(b.Groups, Group{Name: textOf(node, source)})
			}
		case *ast.List:
			for item := range children(node) {
				if last, err = b.list(item, source, last); err != nil {
					return err
				}
			}
		}
	}
	for id, p := range b.pages {
		if over := b.pages[strings.TrimPrefix(path.Dir(id), ".")]; !p.Listed && over != nil {
			p.Group = over.Group
		}
	}
	return nil
}

// list adds an entry of the index to its group. before is the entry before it.
func (b *Book) list(item ast.Node, source []byte, before *Page) (*Page, error) {
	link, ok := item.FirstChild().FirstChild().(*ast.Link)
	if !ok || len(b.Groups) == 0 {
		return nil, fmt.Errorf("%s: an entry is no link in a group: %s", indexFile, textOf(item, source))
	}
	file := string(link.Destination)
	p := b.pages[idOf(file)]
	if p == nil || p.file != file || p.Listed {
		return nil, fmt.Errorf("%s: %s is no page, or is listed twice", indexFile, file)
	}
	group := &b.Groups[len(b.Groups)-1]
	p.Name, p.Group, p.Listed, p.Before = textOf(link, source), group.Name, true, before
	p.Line = strings.TrimLeft(strings.TrimPrefix(textOf(item, source), p.Name), ": ")
	if before != nil {
		before.After = p
	}
	group.Pages = append(group.Pages, p)
	return p, nil
}

// Page returns the page with an id, or nil. The id may also be the name of its file.
func (b *Book) Page(id string) *Page {
	return b.pages[idOf(strings.TrimPrefix(path.Clean("/"+id), "/"))]
}

// Index returns the page that lists all others.
func (b *Book) Index() *Page { return b.pages[""] }

// Pages returns all pages by id: those that the index lists, and the others.
func (b *Book) Pages() []*Page {
	var all []*Page
	for _, p := range b.pages {
		all = append(all, p)
	}
	slices.SortFunc(all, func(x, y *Page) int { return strings.Compare(x.ID, y.ID) })
	return all
}

// File returns the name of the page's file.
func (p *Page) File() string { return p.file }

// Section returns the section with an anchor and those below it, or nothing if there is none.
func (p *Page) Section(anchor string) []Section {
	at := slices.IndexFunc(p.Sections, func(s Section) bool { return s.Anchor == anchor })
	if at < 0 {
		return nil
	}
	end := at + 1
	for end < len(p.Sections) && p.Sections[end].Level > p.Sections[at].Level {
		end++
	}
	return p.Sections[at:end]
}

// Source returns the Markdown of a page.
func (b *Book) Source(p *Page) (string, error) {
	source, err := fs.ReadFile(b.files, p.file)
	return string(source), err
}

package webui

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/a-h/templ"
)

const (
	// maxFind is the length of what is searched for at most, in bytes. The longest is an e-mail address.
	maxFind = 254
	// FoundAtOnce is how many findings of a kind are shown.
	FoundAtOnce = 6
)

// Findings are what a search over everything has found of one kind.
type Findings struct {
	Title string
	List  []Finding
	// More is the address of all findings, for the page; it may be empty.
	More string
}

// Finding is one place that a search leads to.
type Finding struct {
	Path, Text string
	Note       string // beside the text; may be empty
	Lead       string // what is found there, for the page; may be empty
	Icon       string
}

// FindQuery returns what a request searches for, cut to a bounded length.
func FindQuery(r *http.Request) string {
	query := strings.TrimSpace(r.FormValue("q"))
	return strings.ToValidUTF8(query[:min(len(query), maxFind)], "")
}

// Matches reports whether texts have all words of a query. An empty query matches everything.
func Matches(query string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, " "))
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		if !strings.Contains(all, word) {
			return false
		}
	}
	return true
}

// FindPages returns the pages that a query names.
func FindPages(query string, links []Link) Findings {
	found := Findings{Title: "Pages"}
	for _, l := range links {
		if Matches(query, l.Text, l.Group, l.Words) {
			found.List = append(found.List, Finding{Path: l.Path, Text: l.Text, Note: l.Group, Icon: l.Icon})
		}
	}
	return found.Best(query)
}

// Best returns the findings that are shown: those that begin with the query first. All pages are shown to somebody who has
// typed nothing.
func (f Findings) Best(query string) Findings {
	if query == "" {
		return f
	}
	rank := func(x Finding) int {
		switch text := strings.ToLower(x.Text); {
		case strings.HasPrefix(text, strings.ToLower(query)):
			return 0
		case Matches(query, text):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(f.List, func(a, b Finding) int { return cmp.Compare(rank(a), rank(b)) })
	f.List = f.List[:min(len(f.List), FoundAtOnce)]
	return f
}

// RenderFound writes what a search over everything has found: as a part of the palette that app.js opens, or as a page.
// page returns the frame around the findings.
func (u *UI) RenderFound(w http.ResponseWriter, r *http.Request, all []Findings, page func(content templ.Component) (templ.Component, error)) error {
	all = slices.DeleteFunc(all, func(f Findings) bool { return len(f.List) == 0 })
	query := FindQuery(r)
	if Swapping(r) {
		return u.Render(w, r, http.StatusOK, findings(query, all, false))
	}
	whole, err := page(findPage(r.URL.Path, query, all))
	if err != nil {
		return err
	}
	return u.Render(w, r, http.StatusOK, whole)
}

// InFrame and InOpen put content into the frame of a page.
func InFrame(p Page, content templ.Component) templ.Component { return framed(p, content) }

// InOpen is InFrame for a public page.
func InOpen(p Page, o Opening, content templ.Component) templ.Component { return opened(p, o, content) }

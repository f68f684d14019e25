package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sluice/docs"
	"sluice/internal/kit/handbook"
)

// mostAnswers is how many results "sluice docs" prints. More do not fit on a screen.
const mostAnswers = 6

// docsCmd prints and searches the documentation, which is part of the binary.
func (p *program) docsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "docs [PAGE | WORDS]", Short: "Read and search the documentation",
		Long: `Read and search the documentation of this version. It needs no server.

Without an argument, docs lists all pages. With the name of a page, it prints the
page, or one section of it. Anything else is searched for.`,
		Example: "  sluice docs rotate a key\n  sluice docs call/clients\n  sluice docs api#limits",
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, given []string) error {
			book, err := handbook.Open(docs.Files())
			if err != nil {
				return err
			}
			query := strings.TrimSpace(strings.Join(given, " "))
			if query == "" {
				return p.listPages(book)
			}
			name, anchor, _ := strings.Cut(query, "#")
			if page := book.Page(name); page != nil && len(given) == 1 {
				return p.printPage(book, page, anchor)
			}
			return p.printAnswers(book, query)
		},
	}
}

// docsPage is a page in the output for programs.
type docsPage struct {
	Page  string `json:"page"`
	Group string `json:"group"`
	Name  string `json:"name"`
	Line  string `json:"about"`
}

// listPages prints the index.
func (p *program) listPages(book *handbook.Book) error {
	out := []docsPage{}
	for _, g := range book.Groups {
		for _, page := range g.Pages {
			out = append(out, docsPage{page.ID, g.Name, page.Name, page.Line})
		}
	}
	return p.print(out, func(w io.Writer) {
		group := ""
		for _, o := range out {
			if o.Group != group {
				group = o.Group
				fmt.Fprintf(w, "\n%s\n", group)
			}
			fmt.Fprintf(w, "  %-24s %s\n", o.Page, o.Line)
		}
		fmt.Fprintln(w, "\nRun \"sluice docs PAGE\" to read a page, or \"sluice docs WORDS\" to search.")
	})
}

// printPage prints a page as Markdown, or the text of one of its sections.
func (p *program) printPage(book *handbook.Book, page *handbook.Page, anchor string) error {
	if anchor == "" {
		text, err := book.Source(page)
		if err != nil {
			return err
		}
		return p.write(text)
	}
	found := page.Section(anchor)
	if found == nil {
		return fmt.Errorf("%s has no section %q; \"sluice docs %s\" prints the whole page", page.ID, anchor, page.ID)
	}
	var b strings.Builder
	for _, s := range found {
		fmt.Fprintf(&b, "%s %s\n\n%s\n\n", strings.Repeat("#", s.Level), s.Heading, s.Text)
	}
	return p.write(b.String())
}

// docsAnswer is a result of the search in the output for programs.
type docsAnswer struct {
	Page    string `json:"page"` // with the section, as "sluice docs" takes it
	Heading string `json:"heading"`
	Text    string `json:"text"`
}

// printAnswers prints the sections that answer a query best.
func (p *program) printAnswers(book *handbook.Book, query string) error {
	out := []docsAnswer{}
	hits := book.Search(query)
	for _, hit := range hits[:min(len(hits), mostAnswers)] {
		a := docsAnswer{Page: hit.Page.ID, Heading: hit.Heading}
		if hit.Level > 1 {
			a.Page += "#" + hit.Anchor
		}
		for _, piece := range hit.Snippet {
			a.Text += piece.Text
		}
		out = append(out, a)
	}
	if len(out) == 0 && !p.asJSON {
		return fmt.Errorf("nothing was found for %q; try other or fewer words, or run \"sluice docs\" for a list of all pages", query)
	}
	return p.print(out, func(w io.Writer) {
		for _, a := range out {
			fmt.Fprintf(w, "%s\n  sluice docs %s\n", a.Heading, a.Page)
			for _, line := range folded(a.Text, 76) {
				fmt.Fprintf(w, "  %s\n", line)
			}
			fmt.Fprintln(w)
		}
	})
}

// folded returns a text in lines of at most width characters, unless a word is longer.
func folded(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

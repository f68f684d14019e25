package handbook

import (
	"fmt"
	"iter"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// newMarkdown returns what reads Markdown as GitHub does. Alignments of tables are attributes: our pages allow no inline
// styles.
func newMarkdown(options ...goldmark.Option) goldmark.Markdown {
	tables := extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))
	return goldmark.New(append(options,
		goldmark.WithExtensions(tables, extension.Strikethrough, extension.Linkify),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()))...)
}

// parse returns the tree of a page.
func parse(source []byte) ast.Node {
	context := parser.NewContext(parser.WithIDs(anchors{}))
	return newMarkdown().Parser().Parse(text.NewReader(source), parser.WithContext(context))
}

// anchors gives headings the ids that GitHub gives them: the text in lower case, without punctuation, with a hyphen for
// each space. A repeated one gets -1, -2 and so on. The values count how often each was given.
type anchors map[string]int

// Generate implements parser.IDs.
func (a anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(heading)))
	n := a[id]
	a[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

// Put implements parser.IDs. Pages give no ids of their own.
func (a anchors) Put([]byte) {}

// children yields the nodes directly below a node. The node that was yielded may be removed.
func children(n ast.Node) iter.Seq[ast.Node] {
	return func(yield func(ast.Node) bool) {
		for c := n.FirstChild(); c != nil; {
			next := c.NextSibling()
			if !yield(c) {
				return
			}
			c = next
		}
	}
}

// sections returns the parts of a page.
func sections(p *Page, source []byte) (all []Section) {
	var above []string // the heading of each level from 2 on
	for node := range children(parse(source)) {
		h, ok := node.(*ast.Heading)
		if !ok {
			if len(all) > 0 {
				s := &all[len(all)-1]
				s.Text = strings.TrimSpace(s.Text + "\n" + textOf(node, source))
			}
			continue
		}
		heading := textOf(h, source)
		id, _ := h.AttributeString("id")
		anchor, _ := id.([]byte)
		above = above[:min(len(above), max(0, h.Level-2))]
		all = append(all, Section{Page: p, Heading: heading, Anchor: string(anchor), Level: h.Level, above: append([]string{}, above...)})
		if h.Level > 1 {
			above = append(above, heading)
		}
	}
	return all
}

// textOf returns the text of a node without marks. Blocks and cells are separated by line breaks and spaces. Comments and
// other HTML are left out.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				b.WriteByte('\n')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(source))
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			b.Write(n.Lines().Value(source))
		case *ast.HTMLBlock, *ast.RawHTML:
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return tidy(b.String())
}

// tidy removes empty lines, and spaces at the ends of lines.
func tidy(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

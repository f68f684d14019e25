package render

import (
	"html/template"
	"regexp"
	"strings"
)

// markup matches what inline converts: code, bold text, or a link.
var markup = regexp.MustCompile("`([^`]+)`" + `|\*\*([^*]+)\*\*|\[([^\]]+)\]\(([^)\s]+)\)`)

// inline converts the small part of Markdown that descriptions use into HTML: code, bold text
// and links. Everything else is escaped. Markup inside other markup is not converted.
func inline(s string) template.HTML {
	var b strings.Builder
	for len(s) > 0 {
		// m has the start and end of the match and of each group; -1 for a group that did not match.
		m := markup.FindStringSubmatchIndex(s)
		if m == nil {
			break
		}
		b.WriteString(template.HTMLEscapeString(s[:m[0]]))
		group := func(i int) string { return template.HTMLEscapeString(s[m[2*i]:m[2*i+1]]) }
		switch {
		case m[2] >= 0:
			b.WriteString("<code>" + group(1) + "</code>")
		case m[4] >= 0:
			b.WriteString("<strong>" + group(2) + "</strong>")
		default:
			b.WriteString(`<a href="` + group(4) + `">` + group(3) + "</a>")
		}
		s = s[m[1]:]
	}
	return template.HTML(b.String() + template.HTMLEscapeString(s))
}

// prose is inline for paragraphs and lists, which are separated by blank lines. A list starts with "- "
// at the beginning of a line.
func prose(s string) template.HTML {
	var b strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(s), "\n\n") {
		// The first part is the paragraph before the list, if there is one.
		items := strings.Split("\n"+block, "\n- ")
		if lead := strings.TrimSpace(items[0]); lead != "" {
			b.WriteString("<p>" + string(inline(lead)) + "</p>")
		}
		if len(items) == 1 {
			continue
		}
		b.WriteString("<ul>")
		for _, item := range items[1:] {
			b.WriteString("<li>" + string(inline(item)) + "</li>")
		}
		b.WriteString("</ul>")
	}
	return template.HTML(b.String())
}

var (
	// The named groups are the CSS classes of the tokens. jsonTokens also knows the lines of a stream;
	// codeTokens knows strings and comments, which look alike in all languages of the samples.
	jsonTokens = regexp.MustCompile(`(?m)(?P<key>"(?:[^"\\]|\\.)*"):|(?P<str>"(?:[^"\\]|\\.)*")|(?P<lit>\b(?:true|false|null)\b|-?\b\d+(?:\.\d+)?\b)|(?P<mark>^(?:data:|: .*$))`)
	codeTokens = regexp.MustCompile(`(?m)(?P<str>"(?:[^"\\\n]|\\.)*")|(?P<rem>(?:^|\s)(?:#|//) .*$)`)
)

// wire formats a stream as it is sent. Its long lines may wrap before a key, because a line of
// server-sent events cannot be broken in the sample itself.
func wire(code string) template.HTML {
	html := string(highlight(jsonTokens, strings.TrimSpace(code)))
	// <wbr> allows a line break without adding a character that people would copy.
	return template.HTML(strings.ReplaceAll(html, `,<span class="key">`, `,<wbr><span class="key">`))
}

// highlight colours the tokens of a code sample. Each named group becomes a span with that
// class. It runs when the page is generated, so the page needs no script for it.
func highlight(tokens *regexp.Regexp, code string) template.HTML {
	var b strings.Builder
	// Everything between the tokens is copied unchanged, but escaped.
	at := 0
	for _, m := range tokens.FindAllStringSubmatchIndex(code, -1) {
		// Group 0 is the whole match. Only the text of a named group is coloured.
		for i, class := range tokens.SubexpNames() {
			if i == 0 || m[2*i] < 0 {
				continue
			}
			b.WriteString(template.HTMLEscapeString(code[at:m[2*i]]))
			b.WriteString(`<span class="` + class + `">` + template.HTMLEscapeString(code[m[2*i]:m[2*i+1]]) + "</span>")
			at = m[2*i+1]
		}
	}
	b.WriteString(template.HTMLEscapeString(code[at:]))
	return template.HTML(b.String())
}

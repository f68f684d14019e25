package api

import (
	"html"
	"regexp"
	"strings"
	"sync"
)

// All is the page that has the whole reference, for printing and for searching in it.
const All = "all"

// page is one page of the reference: the start, named "", or one operation, named by its id.
type page struct {
	name, title string
	html        string
}

var (
	operationStart = regexp.MustCompile(`<section id="(\w+)" class="row operation">`)
	summary        = regexp.MustCompile(`<h3>(.*?)</h3>`)
	groupName      = regexp.MustCompile(`<div class="group">\s*<h2>(.*?)</h2>[\s\S]*?</div>`)
	anchor         = regexp.MustCompile(` id="([^"]+)"`)
	link           = regexp.MustCompile(`href="#([^"]+)"`)
)

// Operation is one operation of the API, as the reference has it.
type Operation struct {
	Title, Method, Route string
	Page                 string // the path of its page
}

var endpoint = regexp.MustCompile(`<p class="endpoint"><span class="method \w+">(\w+)</span> <code>(.*?)</code>`)

// Operations returns all operations, in the order of the reference. The caller must not modify them.
func Operations() []Operation { return listed() }

var listed = sync.OnceValue(func() (list []Operation) {
	whole := string(Reference())
	starts := operationStart.FindAllStringSubmatchIndex(whole, -1)
	for _, at := range starts {
		text := whole[at[1]:]
		title, call := summary.FindStringSubmatch(text), endpoint.FindStringSubmatch(text)
		list = append(list, Operation{Title: html.UnescapeString(title[1]), Method: call[1], Route: html.UnescapeString(call[2]), Page: path(whole[at[2]:at[3]])})
	}
	return list
})

// pages divides the whole reference into pages. What stands before and after its content is on each of them, and links
// lead to the page that has what they name.
func pages(whole string) map[string]string {
	start := strings.Index(whole, `<section id="start"`)
	end := strings.LastIndex(whole, "<footer>")
	head, content, foot := whole[:start], whole[start:end], whole[end:]

	at := operationStart.FindAllStringSubmatchIndex(content, -1)
	list := []page{{html: content[:at[0][0]]}}
	group := ""
	for i, m := range at {
		until := len(content)
		if i+1 < len(at) {
			until = at[i+1][0]
		}
		text := content[m[0]:until]
		// The heading of a group stands at the end of what is before its first operation.
		if before := &list[len(list)-1]; groupName.MatchString(before.html) {
			group = groupName.FindStringSubmatch(before.html)[1]
			before.html = groupName.ReplaceAllString(before.html, "")
		}
		title := summary.FindStringSubmatch(text)[1]
		text = strings.NewReplacer("<h4>", "<h2>", "</h4>", "</h2>").Replace(text)
		text = strings.Replace(text, "<h3>"+title+"</h3>", `<p class="crumb"><a href="/docs">API</a> › `+group+"</p>\n<h1>"+title+"</h1>", 1)
		list = append(list, page{name: content[m[2]:m[3]], title: title, html: text})
	}

	home := map[string]string{} // the page that has an anchor
	for i := range list {
		for _, m := range anchor.FindAllStringSubmatch(list[i].html, -1) {
			home[m[1]] = list[i].name
		}
	}
	out := map[string]string{All: whole}
	for i, p := range list {
		top := strings.Replace(lead(head, p.name, home), `href="`+path(p.name)+`"><span>`, `href="`+path(p.name)+`" aria-current="page"><span>`, 1)
		if p.name != "" {
			top = strings.Replace(top, "<title>", "<title>"+p.title+" · ", 1)
		}
		out[p.name] = top + lead(p.html, p.name, home) + steps(list, i) + lead(foot, p.name, home)
	}
	return out
}

// lead makes the links of a text on a page lead to the pages that have what they name. What is on every page stays.
func lead(text, page string, home map[string]string) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		name := link.FindStringSubmatch(found)[1]
		to, known := home[name]
		switch {
		case to == name && known:
			return `href="` + path(to) + `"`
		case !known || to == page:
			return found
		}
		return `href="` + path(to) + "#" + name + `"`
	})
}

// path returns the path of a page.
func path(name string) string {
	if name == "" {
		return "/docs"
	}
	return "/docs/" + name
}

// steps returns the links to the pages before and after one.
func steps(list []page, i int) string {
	var b strings.Builder
	b.WriteString(`<nav class="steps" aria-label="Next pages">`)
	if i > 0 {
		title := list[i-1].title
		if i == 1 {
			title = "Start"
		}
		b.WriteString(`<a rel="prev" href="` + path(list[i-1].name) + `"><small>Previous</small> ` + title + `</a>`)
	}
	if i+1 < len(list) {
		b.WriteString(`<a rel="next" href="` + path(list[i+1].name) + `"><small>Next</small> ` + list[i+1].title + `</a>`)
	}
	b.WriteString("</nav>\n")
	return b.String()
}

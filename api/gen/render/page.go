package render

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed page.html page.css snippets
var files embed.FS

// baseURL is the origin in the examples: the default address of a gateway. api.Describe replaces it
// with the origin of the server that shows the page.
const baseURL = "http://127.0.0.1:8080"

// page is the data of the template page.html. The template decides how it looks; everything that
// depends on the document is decided here.
type page struct {
	// template.HTML marks what was escaped here; plain strings are escaped by the template.
	Title, Version string
	Summary        template.HTML
	Intro          template.HTML
	CSS            template.CSS
	BaseURL        string
	QuickStart     samples
	ErrorFields    []form
	ErrorSample    samples
	ErrorTypes     []errorType
	Headers        []header
	Groups         []group
}

// group holds the operations of one tag of the document, under a heading of its own.
type group struct {
	Name       string
	Note       template.HTML
	Operations []operation
}

// operation is one section of the page: a method and a path.
type operation struct {
	ID, Method, Path, Summary string
	Note                      template.HTML
	// Open reports whether the operation needs no key.
	Open              bool
	Parameters        []field
	BodyNote          template.HTML
	Body              []form
	Replies           []reply
	Errors            []errorType
	Request, Response samples
}

// reply is one body that an operation may return: a status and a media type.
type reply struct {
	Status, Media string
	Note          template.HTML
	Forms         []form
}

// errorType is one row of a table of errors (docs/api.md#status-codes).
type errorType struct {
	Status          uint64
	Type            string
	Meaning, Remedy template.HTML
}

// header is one row of the table of response headers (docs/api.md#rate-limit-headers).
type header struct {
	Name, Example string
	Note          template.HTML
}

// samples are code samples shown as tabs. ID is unique on the page.
type samples struct {
	ID, Title string
	Tabs      []sample
}

// sample is one tab of code.
type sample struct {
	Title string
	Code  template.HTML
	// Wire makes long lines wrap instead of scroll.
	Wire bool
}

// Page returns the reference page. It needs no scripts and loads nothing, so it works offline.
func (d *Document) Page() ([]byte, error) {
	css, err := files.ReadFile("page.css")
	if err != nil {
		return nil, err
	}
	// html/template, so that every value is escaped for its place in the page.
	tmpl, err := template.ParseFS(files, "page.html")
	if err != nil {
		return nil, err
	}
	quickStart, err := quickStart()
	if err != nil {
		return nil, err
	}
	info := members(d.root, "info")
	// One explainer for the whole page, in the order of the page: it collapses objects that
	// were explained further up.
	explain := &explainer{d, map[string]bool{}}
	failure := d.target("#/components/schemas/Error")
	// The 429 is the reply with the most headers.
	limited := d.target("#/components/responses/RateLimited")
	p := page{
		Title:       text(info, "title"),
		Version:     text(info, "version"),
		Summary:     inline(text(info, "summary")),
		Intro:       prose(strings.ReplaceAll(text(info, "description"), "{base_url}", baseURL)),
		CSS:         template.CSS(css),
		BaseURL:     baseURL,
		QuickStart:  quickStart,
		ErrorFields: explain.forms(failure, response),
		ErrorSample: samples{"error", "Error", []sample{{
			Title: "JSON",
			Code:  highlight(jsonTokens, pretty(list(failure, "examples")[0])),
		}}},
		ErrorTypes: d.errorTypes(),
		Headers:    d.headers(limited),
		Groups:     explain.groups(),
	}
	var b bytes.Buffer
	if err := tmpl.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("fill the page: %w", err)
	}
	return b.Bytes(), nil
}

// quickStart returns the first request in each language, from the files in snippets. They are files, so
// that they can be read and tried on their own.
func quickStart() (samples, error) {
	s := samples{ID: "start", Title: "First call"}
	// The order of the tabs.
	for _, name := range []string{"curl", "Python", "TypeScript", "Go"} {
		code, err := files.ReadFile("snippets/" + strings.ToLower(name) + ".txt")
		if err != nil {
			return s, err
		}
		s.Tabs = append(s.Tabs, sample{Title: name, Code: highlight(codeTokens, strings.TrimSpace(string(code)))})
	}
	return s, nil
}

// errorTypes returns all error types, from an extension of the Error schema (x-error-types). OpenAPI
// has no place for them.
func (d *Document) errorTypes() []errorType {
	var types []errorType
	for _, v := range list(d.target("#/components/schemas/Error"), "x-error-types") {
		// The YAML package decodes whole numbers as uint64.
		status, _ := get(v, "status").(uint64)
		types = append(types, errorType{status, text(v, "type"), inline(text(v, "meaning")), inline(text(v, "remedy"))})
	}
	return types
}

// headers returns the response headers of a reply. The caller passes the 429, which has all of them.
func (d *Document) headers(reply yaml.MapSlice) []header {
	var headers []header
	for _, item := range members(reply, "headers") {
		object := d.object(item.Value)
		headers = append(headers, header{
			Name:    item.Key.(string),
			Example: fmt.Sprint(get(object, "example")),
			Note:    inline(text(object, "description")),
		})
	}
	return headers
}

// groups returns the operations by tag, in the order of the document. The order matters: explainer
// collapses what it has seen before.
func (d *explainer) groups() []group {
	var groups []group
	for _, tag := range list(d.root, "tags") {
		g := group{Name: text(tag, "name"), Note: prose(text(tag, "description"))}
		// An operation may have several tags, but appears once for each.
		for _, path := range members(d.root, "paths") {
			for _, item := range path.Value.(yaml.MapSlice) {
				if slices.Contains(list(item.Value, "tags"), any(g.Name)) {
					g.Operations = append(g.Operations, d.operation(path.Key.(string), item.Key.(string), item.Value))
				}
			}
		}
		groups = append(groups, g)
	}
	return groups
}

// operation collects everything about one operation. v is the operation object of the document.
func (d *explainer) operation(path, method string, v any) operation {
	op := operation{
		ID:      text(v, "operationId"),
		Method:  strings.ToUpper(method),
		Path:    path,
		Summary: text(v, "summary"),
		Note:    prose(text(v, "description")),
		// Operations without a key override the default with an empty list.
		Open: get(v, "security") != nil,
	}
	// The curl sample has the example values in place of the path parameters.
	call := path
	for _, v := range list(v, "parameters") {
		parameter := d.object(v)
		// A parameter is shown like a field of a body, with its place added to the type.
		row := d.field(d.object(get(parameter, "schema")), request)
		row.Name = text(parameter, "name")
		row.Type += " in " + text(parameter, "in")
		row.Required = get(parameter, "required") == true
		row.Note = prose(text(parameter, "description"))
		op.Parameters = append(op.Parameters, row)
		call = strings.ReplaceAll(call, "{"+row.Name+"}", text(parameter, "example"))
	}
	body := d.object(get(v, "requestBody"))
	// Every operation with a body takes JSON.
	media := get(get(body, "content"), "application/json")
	op.BodyNote = prose(text(body, "description"))
	op.Body = d.forms(d.object(get(media, "schema")), request)
	op.Request = samples{op.ID + "-request", "Request", curls(call, op.Open, members(media, "examples"))}
	op.Response = samples{ID: op.ID + "-response", Title: "Response"}
	d.addReplies(&op, members(v, "responses"))
	return op
}

// curls returns the curl commands of an operation, one for each example of its body. They can be pasted
// into a shell as they are, with SLUICE_KEY set.
func curls(path string, open bool, bodies yaml.MapSlice) []sample {
	head := "curl " + baseURL + path
	if !open {
		head += " \\\n  -H \"Authorization: Bearer $SLUICE_KEY\""
	}
	if len(bodies) == 0 {
		return []sample{{Title: "curl", Code: highlight(codeTokens, head)}}
	}
	head += " \\\n  -H \"Content-Type: application/json\" \\\n  -d '"
	var tabs []sample
	for _, item := range bodies {
		value := get(item.Value, "value")
		call := head
		if get(value, "stream") == true {
			call = strings.Replace(head, "curl ", "curl -N ", 1) // show each event as it arrives
		}
		// The body is in single quotes of the shell.
		quoted := strings.ReplaceAll(pretty(value), "'", `'\''`)
		tabs = append(tabs, sample{
			Title: text(item.Value, "summary"),
			Code:  highlight(codeTokens, call) + highlight(jsonTokens, quoted) + "'",
		})
	}
	return tabs
}

// addReplies adds the replies of an operation with their samples, and its errors. A reply may have
// several media types: a chat completion is JSON or a stream.
func (d *explainer) addReplies(op *operation, responses yaml.MapSlice) {
	// seen holds the schemas that this operation has explained: JSON and the stream share some.
	seen := map[string]bool{}
	for _, item := range responses {
		status, answer := item.Key.(string), d.object(item.Value)
		note := text(answer, "description")
		for _, content := range members(answer, "content") {
			schema := get(content.Value, "schema")
			ref := text(schema, "$ref")
			// All errors have the same body. They are listed in a table of their own.
			if ref == "#/components/schemas/Error" {
				op.Errors = append(op.Errors, d.errors(status, note)...)
				continue
			}
			r := reply{Status: status, Media: content.Key.(string), Note: prose(note)}
			note = ""                    // shown once for all media types
			if ref == "" || !seen[ref] { // the same object is explained once
				r.Note += prose(text(d.object(schema), "description"))
				r.Forms = d.forms(d.object(schema), response)
			}
			seen[ref] = true
			op.Replies = append(op.Replies, r)
			for _, example := range members(content.Value, "examples") {
				op.Response.Tabs = append(op.Response.Tabs, sample{
					Title: text(example.Value, "summary"),
					Code:  highlight(jsonTokens, pretty(get(example.Value, "value"))),
				})
			}
			for _, example := range list(content.Value, "x-wire-examples") {
				op.Response.Tabs = append(op.Response.Tabs, sample{
					Title: text(example, "summary"),
					Code:  wire(text(example, "wire")),
					Wire:  true,
				})
			}
		}
	}
}

// errors returns the error types of one status. If there is only one, the operation's own
// description replaces its general meaning.
func (d *Document) errors(status, meaning string) []errorType {
	var types []errorType
	for _, t := range d.errorTypes() {
		if strconv.FormatUint(t.Status, 10) == status {
			types = append(types, t)
		}
	}
	// A status with several types keeps their general meanings, which tell them apart.
	if len(types) == 1 {
		types[0].Meaning = inline(meaning)
	}
	return types
}

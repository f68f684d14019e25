// Package api holds the description of the HTTP interface: as OpenAPI for machines, and as a reference
// page for people.
//
// openapi.yaml is kept by hand and is the only place to change; the two files embedded here are made
// from it. They are written with the names of a fresh installation, and Describe puts the names of a
// configuration in their place. What the interface does stands in package httpapi.
package api

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"html"
	"strings"
	"sync"
)

//go:generate go run ./gen

//go:embed openapi.json
var openAPI []byte

//go:embed reference.html
var reference []byte

// OpenAPI is the OpenAPI document as JSON, with the default names. The caller must not change it.
func OpenAPI() []byte { return openAPI }

// Reference is the reference page as HTML, with the default names. It runs no script and loads nothing. The
// caller must not change it.
func Reference() []byte { return reference }

// Names are what a configuration calls the things that the description names.
type Names struct {
	Origin     string // where callers find the service
	Brand      string // keys begin with it, and so does the router's id
	VideoModel string

	// Model is what examples call. It and Other, which is another model where there is one, consist of
	// letters, digits and the marks that need no quoting anywhere.
	Model, Other string
	Owner        string // of Model
}

// Defaults are the names that openapi.yaml is written with.
func Defaults() Names {
	return Names{
		Origin: "http://127.0.0.1:8080", Brand: "service", VideoModel: "video-default",
		Model: "sandbox/small", Other: "sandbox/reasoner", Owner: "sandbox",
	}
}

// texts are the names as they stand in the description.
func (n Names) texts() []string {
	title := n.Brand + " API"
	if n.Brand == "service" {
		title = "Sluice API"
	}
	return []string{
		title, n.Origin, n.Brand + "/auto", n.Brand + "%2Fauto", n.Brand + "-", `"` + n.Brand + `"`,
		n.Model, n.Other, `"` + n.Owner + `"`, n.VideoModel,
	}
}

// replacer puts the names in the place of the default ones, each passed through escape.
func (n Names) replacer(escape func(string) string) *strings.Replacer {
	var pairs []string
	to := n.texts()
	for i, from := range Defaults().texts() {
		pairs = append(pairs, escape(from), escape(to[i]))
	}
	return strings.NewReplacer(pairs...)
}

// Description is the description of one configuration. It is made when it is first asked for.
type Description struct {
	Names Names

	openAPI, reference func() Document
}

// Document is a text to be served. The caller must not change it.
type Document struct {
	Body []byte
	ETag string
}

// Describe returns the description with these names.
func Describe(n Names) *Description {
	inHTML := func(s string) string { return html.EscapeString(inJSON(s)) }
	document := func(text []byte, escape func(string) string) func() Document {
		return sync.OnceValue(func() Document {
			body := text
			if n != Defaults() {
				body = []byte(n.replacer(escape).Replace(string(text)))
			}
			sum := sha256.Sum256(body)
			return Document{Body: body, ETag: `"` + hex.EncodeToString(sum[:16]) + `"`}
		})
	}
	return &Description{Names: n, openAPI: document(openAPI, inJSON), reference: document(reference, inHTML)}
}

// inJSON escapes a name for a JSON string. The quotes around it, where there are any, stay.
func inJSON(s string) string {
	name, quoted := strings.CutPrefix(s, `"`)
	if quoted {
		name = strings.TrimSuffix(name, `"`)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(name); err != nil {
		panic(err) // a string always encodes
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if !quoted {
		text = text[1 : len(text)-1]
	}
	return text
}

// OpenAPI is the OpenAPI document as JSON.
func (d *Description) OpenAPI() Document { return d.openAPI() }

// Reference is the reference page as HTML. It runs no script and loads nothing.
func (d *Description) Reference() Document { return d.reference() }

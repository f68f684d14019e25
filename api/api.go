// Package api holds the description of the HTTP API: OpenAPI for programs and a reference page
// for people.
//
// openapi.yaml is written by hand and is the only file to edit. The two embedded files are
// generated from it, with the names of a default installation; Describe replaces them with the
// names of a configuration. The behaviour of the API is implemented in package httpapi.
package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"html"
	"io"
	"strings"
	"sync"
)

//go:generate go run ./gen

//go:embed openapi.json.gz
var packedOpenAPI []byte

//go:embed reference.html.gz
var packedReference []byte

// openAPI and reference decompress a document when it is first asked for. Compressed they take 0.3 MB less of
// the binary.
var (
	openAPI   = unpacked(packedOpenAPI)
	reference = unpacked(packedReference)
)

func unpacked(packed []byte) func() []byte {
	return sync.OnceValue(func() []byte {
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			panic(err) // a test reads it
		}
		text, err := io.ReadAll(r)
		if err != nil {
			panic(err)
		}
		return text
	})
}

// OpenAPI returns the OpenAPI document as JSON, with the default names. The caller must not
// modify it.
func OpenAPI() []byte { return openAPI() }

// Reference returns the reference page as HTML, with the default names. It runs no scripts and
// loads nothing. The caller must not modify it.
func Reference() []byte { return reference() }

// Names are the names that a configuration uses for the things in the description.
type Names struct {
	// Origin is the public origin of the service.
	Origin string
	// Brand is the prefix of keys and of the router's id.
	Brand      string
	VideoModel string

	// Model is used in the examples. Other is another model, if there is one. Both consist of
	// letters, digits and characters that need no quoting anywhere.
	Model, Other string
	// Embedder is an embedding model, of the same letters.
	Embedder string
	// Owner is the owner of Model.
	Owner string

	// Head and Top are HTML for the reference page: the end of its head, and what stands above its contents. They give it
	// the look of a site.
	Head, Top string
}

// Defaults returns the names that openapi.yaml is written with.
func Defaults() Names {
	return Names{
		Origin: "http://127.0.0.1:8080", Brand: "service", VideoModel: "video-default",
		Model: "sandbox/small", Other: "sandbox/reasoner", Embedder: "sandbox/embed", Owner: "sandbox",
	}
}

// texts returns the names as they appear in the description. The order is the same for all
// Names, so that replacer can pair them.
func (n Names) texts() []string {
	title := n.Brand + " API"
	if n.Brand == "service" {
		title = "Sluice API"
	}
	return []string{
		title, n.Origin, n.Brand + "/auto", n.Brand + "%2Fauto", n.Brand + "-", `"` + n.Brand + `"`,
		n.Model, n.Other, n.Embedder, `"` + n.Owner + `"`, n.VideoModel,
	}
}

// replacer replaces the default names with n. escape is applied to both, for the format of the
// document.
func (n Names) replacer(escape func(string) string) *strings.Replacer {
	var pairs []string
	to := n.texts()
	for i, from := range Defaults().texts() {
		pairs = append(pairs, escape(from), escape(to[i]))
	}
	return strings.NewReplacer(pairs...)
}

// Description is the description of one configuration. Its documents are built on first use.
// It is safe for concurrent use.
type Description struct {
	Names Names

	openAPI func() Document
	pages   func() map[string]func() Document // of the reference, by name
}

// Document is a text to serve. The caller must not modify it.
type Document struct {
	Body   []byte
	Zipped []byte // with gzip
	ETag   string
}

// Describe returns the description with these names.
func Describe(n Names) *Description {
	inHTML := func(s string) string { return html.EscapeString(inJSON(s)) }
	document := func(text func() []byte, escape func(string) string) func() Document {
		return sync.OnceValue(func() Document {
			body := text()
			if n != Defaults() {
				body = []byte(n.replacer(escape).Replace(string(body)))
			}
			sum := sha256.Sum256(body)
			return Document{Body: body, Zipped: zip(body), ETag: `"` + hex.EncodeToString(sum[:16]) + `"`}
		})
	}
	dressed := func() []byte {
		page := bytes.Replace(reference(), []byte("</head>"), []byte(n.Head+"</head>"), 1)
		return bytes.Replace(page, []byte(`<aside class="side" aria-label="Reference">`), []byte(n.Top+`<aside class="side" aria-label="Reference">`), 1)
	}
	d := &Description{Names: n, openAPI: document(OpenAPI, inJSON)}
	d.pages = sync.OnceValue(func() map[string]func() Document {
		all := map[string]func() Document{}
		for name, text := range pages(string(dressed())) {
			all[name] = document(func() []byte { return []byte(text) }, inHTML)
		}
		return all
	})
	return d
}

// zip compresses a document.
func zip(text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(text) // a bytes.Buffer never fails
	_ = z.Close()
	return b.Bytes()
}

// inJSON escapes a name for a JSON string. It keeps the quotes around it, if there are any.
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

// OpenAPI returns the OpenAPI document as JSON.
func (d *Description) OpenAPI() Document { return d.openAPI() }

// Reference returns the whole reference as one page of HTML, with Head and Top of its names.
func (d *Description) Reference() Document {
	whole, _ := d.Page(All)
	return whole
}

// Page returns a page of the reference: "" for the start, the id of an operation, or All. ok is false if there is none.
func (d *Description) Page(name string) (page Document, ok bool) {
	of, ok := d.pages()[name]
	if !ok {
		return Document{}, false
	}
	return of(), true
}

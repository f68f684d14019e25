// Package api holds the description of the HTTP interface: as OpenAPI for machines, and as a reference
// page for people.
//
// openapi.yaml is kept by hand and is the only place to change; the two files embedded here are made
// from it. What the interface does stands in package httpapi.
package api

import _ "embed"

//go:generate go run ./gen

//go:embed openapi.json
var openAPI []byte

//go:embed reference.html
var reference []byte

// OpenAPI is the OpenAPI document as JSON. The caller must not change it.
func OpenAPI() []byte { return openAPI }

// Reference is the reference page as HTML. It runs no script and loads nothing. The caller must not
// change it.
func Reference() []byte { return reference }

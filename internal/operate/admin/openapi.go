package admin

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
)

// describe returns the OpenAPI file of the admin API: one operation for each route that has a path, with schemas made
// from the types of its argument and result.
func describe() []byte {
	d := &description{schemas: map[string]any{}}
	paths := map[string]any{}
	for _, r := range Ops().routes {
		if r.Path == "" {
			continue
		}
		item, _ := paths[Base+r.Path].(map[string]any)
		if item == nil {
			item = map[string]any{}
			paths[Base+r.Path] = item
		}
		item[strings.ToLower(r.Method)] = d.operation(r)
	}
	scopes := map[string]string{}
	for _, s := range Scopes() {
		scopes[string(s.Scope)] = s.Text
	}
	d.schemas["Error"] = map[string]any{
		"type": "object", "required": []string{"error"},
		"properties": map[string]any{"error": map[string]any{
			"type": "object", "required": []string{"message", "type", "code"},
			"properties": map[string]any{
				"message": map[string]any{"type": "string"}, "type": map[string]any{"type": "string"},
				"code": map[string]any{"type": "integer"}, "param": map[string]any{"type": "string"},
			},
		}},
	}
	body, err := json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "Sluice admin API", "version": "1",
			"description": "What staff does, for programs. Every request needs a staff token, which a member of staff makes in the support console or with the command line. Each operation names the scope that the token must have.",
		},
		"servers":  []any{map[string]any{"url": "/"}},
		"security": []any{map[string]any{"staffToken": []string{}}},
		"paths":    paths,
		"components": map[string]any{
			"schemas": d.schemas,
			"securitySchemes": map[string]any{"staffToken": map[string]any{
				"type": "http", "scheme": "bearer", "description": "A staff token.", "x-scopes": scopes,
			}},
		},
	}, "", "  ")
	if err != nil {
		panic(err) // maps of texts always encode
	}
	return append(body, '\n')
}

// description collects the schemas of named types.
type description struct{ schemas map[string]any }

// operation describes one route.
func (d *description) operation(r *Route) map[string]any {
	op := map[string]any{
		"operationId": r.Name, "summary": r.Summary, "x-scope": r.Scope,
		"description": "Needs the scope `" + string(r.Scope) + "`.",
		"responses": map[string]any{
			"200":     content("The result.", d.schema(r.out)),
			"default": content("The request was refused.", map[string]any{"$ref": "#/components/schemas/Error"}),
		},
	}
	inPath := r.pathFields()
	names, fields := fieldsOf(r.in)
	var parameters []any
	properties := map[string]any{}
	for _, name := range names {
		f := fields[name]
		switch {
		case name == "actor": // who calls is known by the token
		case slices.Contains(inPath, name):
			parameters = append(parameters, map[string]any{"name": name, "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
		case r.Method == "GET":
			parameters = append(parameters, map[string]any{"name": name, "in": "query", "schema": d.schema(f.Type)})
		default:
			properties[name] = d.schema(f.Type)
		}
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	if len(properties) > 0 {
		op["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{
			"schema": map[string]any{"type": "object", "properties": properties, "additionalProperties": false},
		}}}
	}
	return op
}

func content(text string, schema any) map[string]any {
	return map[string]any{"description": text, "content": map[string]any{"application/json": map[string]any{"schema": schema}}}
}

// schema describes a type as encoding/json writes it.
func (d *description) schema(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[price.Entry](): // as in docs/providers/prices.md
		return map[string]any{"type": "object"}
	case reflect.TypeFor[json.Number]():
		return map[string]any{"type": "number"}
	case reflect.TypeFor[account.Limit]():
		return map[string]any{"oneOf": []any{map[string]any{"type": "integer"}, map[string]any{"const": "unlimited"}}}
	}
	if t.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return map[string]any{"type": "string"}
	}
	if t.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[json.Marshaler]()) {
		return map[string]any{} // anything
	}
	switch t.Kind() {
	case reflect.Pointer:
		s := d.schema(t.Elem())
		if kind, ok := s["type"].(string); ok {
			s["type"] = []string{kind, "null"}
			return s
		}
		if s["$ref"] != nil {
			return map[string]any{"oneOf": []any{s, map[string]any{"type": "null"}}}
		}
		return s
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": d.schema(t.Elem())}
	case reflect.Struct:
		return d.object(t)
	}
	return map[string]any{}
}

// object describes a struct, once, and returns a reference to it.
func (d *description) object(t reflect.Type) map[string]any {
	name := schemaName(t)
	ref := map[string]any{"$ref": "#/components/schemas/" + name}
	if d.schemas[name] != nil {
		return ref
	}
	s := map[string]any{"type": "object"}
	d.schemas[name] = s // before its fields: a type may refer to itself
	properties, required := map[string]any{}, []string{}
	names, fields := fieldsOf(t)
	for _, field := range names {
		f := fields[field]
		properties[field] = d.schema(f.Type)
		if tag := f.Tag.Get("json"); !strings.Contains(tag, ",omitempty") && !strings.Contains(tag, ",omitzero") {
			required = append(required, field)
		}
	}
	if len(properties) > 0 {
		s["properties"] = properties
	}
	if len(required) > 0 {
		s["required"] = required
	}
	return ref
}

// schemaName returns the name of a type's schema. A list is named after what it has; a type of another package has the name of the
// package before its own.
func schemaName(t reflect.Type) string {
	name := t.Name()
	if strings.HasPrefix(name, "List[") {
		f, _ := t.FieldByName("Data") // every List has it
		return schemaName(f.Type.Elem()) + "List"
	}
	pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
	if pkg == "admin" || pkg == "" {
		return name
	}
	return strings.ToUpper(pkg[:1]) + pkg[1:] + name
}

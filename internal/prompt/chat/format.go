package chat

// format reads response_format. An object without a type is refused: it would silently mean text, and
// the caller who sends one wants JSON. The schema itself is not checked; upstreams judge it.
func (p *parser) format() {
	if p.null() || !p.object("an object with a type") {
		return
	}
	f := &p.req.Format
	var (
		kind   string
		schema place
	)
	for p.member() {
		switch string(p.key) {
		case "type":
			kind = p.oneOf(formatTypes, "text", "json_object", "json_schema")
		case "json_schema":
			// It matters only if type is json_schema, and type may come later.
			schema = p.here()
			p.other(formatShape)
		default:
			p.other(formatShape)
		}
	}
	// The type decides, and a json_schema beside another type is ignored.
	switch kind {
	case "text":
		f.Kind = FormatText
	case "json_object":
		f.Kind = FormatJSONObject
	case "json_schema":
		f.Kind = FormatJSONSchema
		if end := p.pos; p.revisit(schema) {
			p.jsonSchema(f)
			p.resume(end)
		}
		if f.SchemaName == "" {
			p.bad(".json_schema", `is required with type "json_schema": an object with a name`)
		}
	default:
		p.bad(".type", "is required: "+formatTypes)
	}
}

// formatTypes lists the types of response_format for messages.
const formatTypes = `"text", "json_object" or "json_schema"`

// jsonSchema reads response_format.json_schema into f. The whole object counts toward the prompt,
// because models read the name and the schema. For null it leaves f as it is; format then reports the
// missing object.
func (p *parser) jsonSchema(f *Format) {
	from := p.pos
	if p.null() || !p.object("an object with a name") {
		return
	}
	for p.member() {
		switch string(p.key) {
		case "name":
			f.SchemaName = p.requiredText()
		case "schema":
			f.Schema = p.schema()
		case "strict":
			f.Strict = !p.null() && p.boolean()
		default:
			p.other(schemaShape)
		}
	}
	if f.SchemaName == "" {
		p.bad(".name", "is required")
		return
	}
	p.req.size.bytes += p.pos - from
}

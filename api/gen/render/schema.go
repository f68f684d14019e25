package render

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// field is one row of a table of fields. A field that is an object has tables of its own in Forms.
type field struct {
	Name     string
	Type     string
	Required bool
	// Optional marks a field of a reply that may be absent.
	Optional bool
	Note     template.HTML
	// Facts describe the limits of the value.
	Facts []string
	// Values are those of an enum or a constant. With Each they apply to each item of an
	// array.
	Values  []string
	Each    bool
	Default string
	// Forms are the fields of the objects that the value may be.
	Forms []form
	// Open expands Forms, because they were not explained before and are few.
	Open bool
}

// form is the fields of one object. A field that may be one of several objects has a form for each.
type form struct {
	Title string
	// Alone reports that there is no other form, so that it needs no title.
	Alone bool
	// Told reports that the page has explained this object before.
	Told   bool
	Fields []field
}

// direction is which way a schema travels. In a request null means absent, so it is not
// mentioned. In a response limits are not mentioned, because they are ours to keep.
type direction int

const (
	request direction = iota
	response
)

// explainer turns schemas into rows. It remembers what it has explained, so that the page can
// collapse an object that was explained before. It must be used in the order of the page.
type explainer struct {
	*Document
	// told is true for the titles of objects that were explained.
	told map[string]bool
}

// fields returns the rows of an object schema, in the order of the document.
func (d *explainer) fields(schema yaml.MapSlice, dir direction) []field {
	var rows []field
	required := list(schema, "required")
	for _, property := range members(schema, "properties") {
		row := d.field(d.object(property.Value), dir)
		row.Name = property.Key.(string)
		// In a request only required fields are marked; in a reply only those that may be
		// absent.
		known := slices.Contains(required, any(row.Name))
		row.Required, row.Optional = known && dir == request, !known && dir == response
		rows = append(rows, row)
	}
	return rows
}

// field returns the row of one property: its type, limits, values, and the fields of the
// objects in it. It sets everything but the name and whether the property is required, which only the
// object around it knows.
func (d *explainer) field(schema yaml.MapSlice, dir direction) field {
	row := field{Note: prose(text(schema, "description"))}
	var kinds []string
	// null in a request means the same as leaving the field out.
	alternatives := slices.DeleteFunc(d.alternatives(schema), func(a yaml.MapSlice) bool {
		return dir == request && text(a, "type") == "null"
	})
	for _, alternative := range alternatives {
		kind, _ := d.typeNames(alternative)
		// The fields of an array are those of its items.
		if items := get(alternative, "items"); items != nil {
			item := d.object(items)
			row.Forms = append(row.Forms, d.forms(item, dir)...)
			row.Values = append(row.Values, values(item)...)
			row.Each = true
		} else {
			row.Forms = append(row.Forms, d.forms(alternative, dir)...)
			row.Values = append(row.Values, values(alternative)...)
		}
		for _, fact := range bounds(alternative) {
			switch {
			case dir == response: // our own replies are always within the limits
			case len(alternatives) > 1:
				row.Facts = append(row.Facts, text(alternative, "type")+" "+fact)
			default:
				row.Facts = append(row.Facts, fact)
			}
		}
		kinds = append(kinds, kind)
	}
	row.Type = strings.Join(kinds, " or ")
	row.Open = slices.ContainsFunc(row.Forms, func(f form) bool { return !f.Told }) && count(row.Forms) <= mostOpen
	// false and 0 are defaults too, so only a missing one is left out.
	if v := get(schema, "default"); v != nil {
		row.Default = fmt.Sprint(v)
	}
	return row
}

// mostOpen is how many fields inside of a field are shown before somebody opens it: more than these push the next field out of sight.
const mostOpen = 8

// count returns how many fields are in forms, with those inside of them.
func count(forms []form) int {
	n := 0
	for _, f := range forms {
		n += len(f.Fields)
		for i := range f.Fields {
			n += count(f.Fields[i].Forms)
		}
	}
	return n
}

// forms returns the objects that a schema allows: itself, or its alternatives. A schema that is no
// object has none. Calling it marks their titles as explained.
func (d *explainer) forms(schema yaml.MapSlice, dir direction) []form {
	var forms []form
	alternatives := d.alternatives(schema)
	for _, alternative := range alternatives {
		title := text(alternative, "title")
		told := d.told[title]
		// Objects without a title are never collapsed.
		d.told[title] = title != ""
		if rows := d.fields(alternative, dir); len(rows) > 0 {
			forms = append(forms, form{title, len(alternatives) == 1, told, rows})
		}
	}
	return forms
}

// alternatives returns the schemas of anyOf or oneOf, or one schema for each entry of a list
// of types. A simple schema is its own only alternative. The result is never empty.
func (d *Document) alternatives(schema yaml.MapSlice) []yaml.MapSlice {
	var found []yaml.MapSlice
	for _, v := range slices.Concat(list(schema, "anyOf"), list(schema, "oneOf")) {
		found = append(found, d.object(v))
	}
	// A list of types, as in [string, null], is how OpenAPI 3.1 writes a nullable field.
	for i, kind := range list(schema, "type") {
		alternative := yaml.MapSlice{{Key: "type", Value: kind}}
		if i == 0 { // the rest of the schema describes the first type; the others are null
			for _, item := range schema {
				if item.Key != "type" {
					alternative = append(alternative, item)
				}
			}
		}
		found = append(found, alternative)
	}
	if found == nil {
		found = []yaml.MapSlice{schema}
	}
	return found
}

// typeNames returns the name of a schema's type in the singular and the plural, such as "array of
// strings" and "items".
func (d *Document) typeNames(schema yaml.MapSlice) (one, many string) {
	switch kind := text(schema, "type"); kind {
	case "array":
		_, items := d.typeNames(d.object(get(schema, "items")))
		return "array of " + items, "items"
	case "null":
		return "null", "nulls"
	// A schema without a type is a choice of objects.
	case "":
		return "object", "objects"
	case "object":
		if entries := get(schema, "additionalProperties"); text(entries, "type") != "" {
			_, many := d.typeNames(d.object(entries))
			return "object of " + many, "objects"
		}
		return "object", "objects"
	default:
		return kind, kind + "s"
	}
}

// values returns what an enum or a constant allows, except null, which field treats as a type.
func values(schema yaml.MapSlice) []string {
	var found []string
	for _, v := range list(schema, "enum") {
		if v != nil {
			found = append(found, fmt.Sprint(v))
		}
	}
	if v := get(schema, "const"); v != nil {
		found = append(found, fmt.Sprint(v))
	}
	return found
}

// bounds describes the limits of a schema in words, such as "0 to 2" or "at most 64 items".
func bounds(schema yaml.MapSlice) []string {
	var facts []string
	if low, high := get(schema, "minimum"), get(schema, "maximum"); low != nil || high != nil {
		facts = append(facts, span(low, high, ""))
	}
	if low, high := get(schema, "minItems"), get(schema, "maxItems"); low != nil || high != nil {
		facts = append(facts, span(low, high, " items"))
	}
	if high := get(schema, "maxProperties"); high != nil {
		facts = append(facts, span(nil, high, " members"))
	}
	if low, high := get(schema, "minLength"), get(schema, "maxLength"); low != nil || high != nil {
		facts = append(facts, span(low, high, " characters"))
	}
	return facts
}

// span describes a range whose ends may be open: nil is an open end. At least one of them is given.
func span(low, high any, unit string) string {
	switch {
	// "at least 1 items" would be bad English.
	case high == nil && unit != "" && fmt.Sprint(low) == "1":
		return "not empty"
	case high == nil:
		return fmt.Sprint("at least ", low, unit)
	case low == nil:
		return fmt.Sprint("at most ", high, unit)
	}
	return fmt.Sprint(low, " to ", high, unit)
}

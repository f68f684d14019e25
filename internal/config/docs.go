package config

import (
	_ "embed"
	"fmt"
	"reflect"
	"strings"
)

//go:embed example.yaml
var example string

// Example is a configuration file to start from, every setting in it explained and commented out.
func Example() string { return example }

// Docs is the reference of every setting as Markdown.
func Docs() string {
	var b strings.Builder
	b.WriteString(docsIntro)
	writeSection(&b, reflect.TypeFor[Config](), "", true)
	return b.String()
}

const docsIntro = `# Configuration

Every setting has a default, so Sluice runs without a file. ` + "`sluice config init`" + ` writes a commented one to start from,
` + "`sluice config check`" + ` says what is wrong with it, and where.

A value comes from the first of these that sets it:

1. a flag on the command line,
2. the environment variable named below (a list is separated by commas),
3. the file: the one given with ` + "`--config`" + `, or named in ` + "`SLUICE_CONFIG`" + `, or ` + "`sluice.yaml`" + ` in the working directory,
4. the default.

Inside the file, ` + "`${NAME}`" + ` stands for an environment variable and ` + "`${file:/path}`" + ` for what a file holds;
` + "`$${`" + ` is a plain ` + "`${`" + `. Use them for keys and passwords. Relative paths start at the working directory.
`

// writeSection writes the table of a struct's fields, then a section for each mapping and list of mappings in it.
// fixed is whether its paths are fixed, so that variables reach them.
func writeSection(b *strings.Builder, t reflect.Type, path string, fixed bool) {
	b.WriteString("\n| setting | value | default | variable | meaning |\n|---|---|---|---|---|\n")
	var sections []reflect.StructField
	for field := range t.Fields() {
		key := field.Tag.Get("yaml")
		switch {
		case key == "":
			continue
		case sectionType(field.Type) != nil:
			sections = append(sections, field)
			continue
		}
		name := "–"
		if fixed {
			name = "`" + variable(join(path, key)) + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", join(path, key), wordsFor(field.Type), defaultWords(field), name, docOf(t, field))
	}
	for _, field := range sections {
		inside, kind := join(path, field.Tag.Get("yaml")), field.Type.Kind()
		switch kind {
		case reflect.Slice:
			inside += "[]"
		case reflect.Map:
			inside += ".<plan>"
		}
		fmt.Fprintf(b, "\n%s `%s`\n\n%s\n", strings.Repeat("#", 2+strings.Count(path, ".")+strings.Count(path, "[]")), inside, docOf(t, field))
		writeSection(b, sectionType(field.Type), inside, fixed && kind != reflect.Slice && kind != reflect.Pointer)
	}
}

// sectionType is the struct behind a field that is a mapping, or a list or map of them; nil for other fields.
func sectionType(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return sectionType(t.Elem())
	case reflect.Struct:
		if isSection(t) {
			return t
		}
	}
	return nil
}

func defaultWords(field reflect.StructField) string {
	if field.Tag.Get("required") != "" {
		return "required"
	}
	if text := field.Tag.Get("default"); text != "" {
		return "`" + text + "`"
	}
	return "–"
}

// docOf is the comment on a field, which go generate keeps in fieldDocs.
func docOf(t reflect.Type, field reflect.StructField) string {
	return fieldDocs[t.Name()+"."+field.Name]
}

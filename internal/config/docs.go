package config

import (
	_ "embed"
	"fmt"
	"reflect"
	"strings"
)

//go:embed example.yaml
var example string

// Example returns a configuration file to start from. Every setting in it is explained and
// commented out.
func Example() string { return example }

// Docs returns the reference of all settings as Markdown.
func Docs() string {
	var b strings.Builder
	b.WriteString(docsIntro)
	writeSection(&b, reflect.TypeFor[Config](), "", true, false)
	return b.String()
}

const docsIntro = `# Configuration

Every setting has a default, so Sluice runs without a file. ` + "`sluice config init`" + ` writes a commented one to start from,
` + "`sluice config check`" + ` says what is wrong with it, and where.

Sluice uses the first of these that sets a value:

1. a flag on the command line,
2. the environment variable named below (a list is separated by commas),
3. the file: the one given with ` + "`--config`" + `, or named in ` + "`SLUICE_CONFIG`" + `, or ` + "`sluice.yaml`" + ` in the working directory,
4. the default.

Inside the file, ` + "`${NAME}`" + ` is replaced with an environment variable and ` + "`${file:/path}`" + ` with the content of a file;
` + "`$${`" + ` is a literal ` + "`${`" + `. Use them for keys and passwords.
As the user or the password of an address, such as ` + "`postgres://sluice:${PASSWORD}@db/sluice`" + `, the value may have any character. Relative paths are relative to the working directory.

A running server loads a changed file, and changed files that it names, a few seconds after the last change; ` + "`kill -HUP`" + ` loads them at once. If the new
configuration has a mistake, or its file is gone or empty, the old one stays in force, and the log and ` + "`/readyz`" + ` say so. Settings that need a restart
say so below; the log names them when they change. Replace files by renaming, not by writing in place, where you can.
`

// writeSection writes the table of a struct's fields, then a section for each mapping and list
// of mappings in it. fixed reports whether the paths are fixed, so that variables can set
// them; restart, whether a restart is needed for all of them.
func writeSection(b *strings.Builder, t reflect.Type, path string, fixed, restart bool) {
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
		doc := docOf(t, field)
		if restart || needsRestart(field) {
			doc += " A change needs a restart."
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", join(path, key), wordsFor(field.Type), defaultWords(field), name, doc)
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
		writeSection(b, sectionType(field.Type), inside, fixed && kind != reflect.Slice && kind != reflect.Pointer, restart || needsRestart(field))
	}
}

// sectionType returns the struct of a field that is a mapping, or a list or map of mappings.
// It returns nil for other fields.
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

// defaultWords returns the content of the default column.
func defaultWords(field reflect.StructField) string {
	if field.Tag.Get("required") != "" {
		return "required"
	}
	if text := field.Tag.Get("default"); text != "" {
		return "`" + text + "`"
	}
	return "–"
}

// docOf returns the comment of a field. go generate keeps them in fieldDocs.
func docOf(t reflect.Type, field reflect.StructField) string {
	return fieldDocs[t.Name()+"."+field.Name]
}

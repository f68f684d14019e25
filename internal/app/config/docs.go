package config

import (
	_ "embed"
	"fmt"
	"reflect"
	"strings"

	"sluice/internal/kit/typo"
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

// DocsOf returns the part of the reference about a section, such as providers, or about one setting, such as tls.cert.
// The marks of lists and plans may be left out: models.pricing means the section models[].pricing.
func DocsOf(name string) (string, error) {
	plain := func(path string) string {
		return strings.NewReplacer("[]", "", ".<plan>", "").Replace(path)
	}
	want := plain(strings.Trim(name, "."))
	var known []string
	// Each part begins with its heading; the first has the settings outside of sections.
	parts := strings.Split(Docs()[len(docsIntro):], "\n##")
	for i, part := range parts {
		head, body, _ := strings.Cut(part, "\n")
		path := ""
		if i > 0 {
			path = plain(strings.Trim(head, "# `"))
			known = append(known, path)
			if path == want {
				return strings.Join(within(parts[i:], path, plain), ""), nil
			}
		}
		for line := range strings.Lines(body) {
			setting, ok := strings.CutPrefix(line, "| `")
			setting, _, _ = strings.Cut(setting, "`")
			if !ok {
				continue
			}
			if known = append(known, plain(setting)); plain(setting) == want {
				return oneSetting(line, exampleOf(want)), nil
			}
		}
	}
	return "", fmt.Errorf("no setting or section is called %q%s", name, typo.DidYouMean(want, known))
}

// within returns the first part, whose section has the path, and those after it that are inside of it.
func within(parts []string, path string, plain func(string) string) []string {
	var all []string
	for i, part := range parts {
		head, _, _ := strings.Cut(part, "\n")
		if i > 0 && !strings.HasPrefix(plain(strings.Trim(head, "# `")), path+".") {
			break
		}
		all = append(all, "##"+strings.TrimSuffix(part, "\n")+"\n")
		if i+1 < len(parts) {
			all = append(all, "\n")
		}
	}
	if n := len(all); n > 1 && all[n-1] == "\n" {
		all = all[:n-1]
	}
	return all
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

// needsRestartWords ends the description of a setting that a running server does not load.
const needsRestartWords = " A change needs a restart."

// writeSection writes the table of a struct's fields, then a section for each mapping and list
// of mappings in it. fixed reports whether the paths are fixed, so that variables can set
// them; restart, whether a restart is needed for all of them.
func writeSection(b *strings.Builder, t reflect.Type, path string, fixed, restart bool) {
	b.WriteString("\n| setting | value | default | variable | meaning |\n|---|---|---|---|---|\n")
	var sections []reflect.StructField
	for _, field := range fieldsOf(t) {
		key := field.Tag.Get("yaml")
		if sectionType(field.Type) != nil {
			sections = append(sections, field)
			continue
		}
		name := "–"
		if fixed {
			name = "`" + variable(join(path, key)) + "`"
		}
		doc := docOf(t, field)
		if restart || needsRestart(field) {
			doc += needsRestartWords
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
	if n := len(field.Index); n > 1 {
		t = t.FieldByIndex(field.Index[:n-1]).Type // the embedded struct that it is in
	}
	return fieldDocs[t.Name()+"."+field.Name]
}

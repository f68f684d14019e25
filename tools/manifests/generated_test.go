package manifests

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the generated files of the chart")

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGenerated compares files that are made of others. -update writes them.
func TestGenerated(t *testing.T) {
	t.Parallel()
	var file yaml.Node
	if err := yaml.Unmarshal([]byte(read(t, "deploy/helm/sluice/values.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	settings := describe(t, "", file.Content[0])
	for name, want := range map[string]string{
		// A chart cannot read files beside it.
		"deploy/helm/sluice/files/alerts.yaml":  read(t, "deploy/prometheus/alerts.yaml"),
		"deploy/helm/sluice/README.md":          chartPage(settings),
		"deploy/helm/sluice/values.schema.json": schema(t, settings),
		"tools/manifests/testdata/one.yaml":     snapshot(t, "one with backups"),
		"tools/manifests/testdata/many.yaml":    snapshot(t, "example"),
	} {
		path := filepath.Join(root, name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not current (%v): cd tools/manifests && go test -run TestGenerated . -args -update", name, err)
		}
	}
}

// snapshot returns a rendered variant as one file. Tests of the main module start programs as it says.
func snapshot(t *testing.T, variant string) string {
	t.Helper()
	docs, _, err := render(t, values(t, variant))
	if err != nil {
		t.Fatal(err)
	}
	out := "# Written by TestGenerated: what \"helm template\" makes of the chart.\n"
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		out += "---\n" + strings.TrimSpace(docs[name]) + "\n"
	}
	return out
}

// setting is a value of the chart, or a section of them.
type setting struct {
	path, name, text string
	value            *yaml.Node
	section          []setting
}

// describe reads the settings of a section with their comments. A setting without one is an error; a section whose settings
// have comments of their own needs none.
func describe(t *testing.T, path string, node *yaml.Node) (out []setting) {
	t.Helper()
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		s := setting{path: path + key.Value, name: key.Value, value: value}
		// The comment at the top of the file is apart from that of the first setting.
		comment := key.HeadComment[strings.LastIndex(key.HeadComment, "\n\n")+1:]
		for line := range strings.Lines(comment) {
			s.text += strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")) + " "
		}
		s.text = strings.TrimSpace(s.text)
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && s.text == "" {
			s.section = describe(t, s.path+".", value)
		} else if s.text == "" {
			t.Errorf("values.yaml does not say what %s is", s.path)
		}
		out = append(out, s)
	}
	return out
}

// chartPage returns the README of the chart.
func chartPage(settings []setting) string {
	var b strings.Builder
	b.WriteString(`# The chart of Sluice

[docs/run/kubernetes.md](../../../docs/run/kubernetes.md) goes from a cluster to the first answer, step by step. This page lists all values.
Without any, the chart runs one node with SQLite on a volume of its own. [examples/many.yaml](examples/many.yaml) runs three nodes.

| value | default | what it is |
|---|---|---|
`)
	var rows func([]setting)
	rows = func(settings []setting) {
		for _, s := range settings {
			if s.section != nil {
				rows(s.section)
				continue
			}
			value := "see values.yaml"
			if len(s.value.Content) == 0 {
				text, _ := yaml.Marshal(s.value) // of a scalar or an empty list, without its comment
				value = "`" + strings.TrimSpace(strings.SplitN(string(text), "\n", 2)[0]) + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.path, value, s.text)
		}
	}
	rows(settings)
	return b.String()
}

// schema returns values.schema.json: the types of the defaults, and no other names than theirs.
func schema(t *testing.T, settings []setting) string {
	t.Helper()
	out := section(settings)
	out["$schema"] = "http://json-schema.org/draft-07/schema#"
	// Helm merges these into the values.
	out["properties"].(map[string]any)["global"] = map[string]any{"type": "object"}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// section returns the schema of a section.
func section(settings []setting) map[string]any {
	properties := map[string]any{}
	for _, s := range settings {
		if s.section != nil {
			properties[s.name] = section(s.section)
			continue
		}
		kind := map[string]string{"!!str": "string", "!!int": "integer", "!!bool": "boolean", "!!map": "object", "!!seq": "array"}[s.value.Tag]
		properties[s.name] = map[string]any{"type": kind, "description": s.text}
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

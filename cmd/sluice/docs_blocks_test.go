package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"sluice/internal/app/config"
)

// languages are the languages of blocks. Plain text is what programs print, files of other programs, and drawings.
var languages = []string{"", "text", "sh", "yaml", "json", "python", "js", "ts", "go", "caddyfile", "nginx", "ini", "toml", "sql", "diff", "mermaid", "xml", "http", "dockerfile"}

// command matches a line that is typed.
var command = regexp.MustCompile(`^(\$ )?(sluice|curl|docker|podman|kubectl|helm|apt|systemctl|export [A-Z]|go run|make) ?[a-z./-]`)

// TestBlocksOfPages reads every other block of the pages: a piece of our configuration is loaded, JSON is parsed, and
// so are programs where their language is here.
func TestBlocksOfPages(t *testing.T) {
	t.Parallel()
	checks := map[string]func(*testing.T, string) error{"yaml": checkYAML, "json": checkJSON, "python": checkPython, "js": checkScript}
	for path, blocks := range readPages(t) {
		for _, b := range blocks {
			t.Run(fmt.Sprintf("%s:%d", path, b.line), func(t *testing.T) {
				t.Parallel()
				switch check := checks[b.language]; {
				case !slices.Contains(languages, b.language):
					t.Errorf("a block is %q, want one of %q", b.language, languages)
				case path != "docs/cli.md" && (b.language == "" || b.language == "text") && allCommands(b.text): // the generated page shows forms of commands
					t.Errorf("the block has commands; make it sh, so that they are run")
				case check != nil && b.reason == "":
					if err := check(t, b.text); err != nil {
						t.Errorf("%v in\n%s", err, b.text)
					}
				}
			})
		}
	}
}

// allCommands reports whether every line of a text is a command. A line with a gap explains one.
func allCommands(text string) bool {
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" && (!command.MatchString(line) || strings.Contains(line, "   ")) {
			return false
		}
	}
	return text != ""
}

// checkJSON parses a value. Three dots stand for what was left out.
func checkJSON(_ *testing.T, text string) error {
	text = strings.NewReplacer(", …,", ",", ",…]", "]", ",…}", "}", ", …}", "}", ", …]", "]", "[…]", "[]", "{…}", "{}", ": …", ": 0").Replace(text)
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var v any
		if err := d.Decode(&v); err != nil {
			return err
		}
	}
	return nil
}

// checkPython parses a program.
func checkPython(t *testing.T, text string) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	cmd := exec.Command(python, "-c", "import ast, sys; ast.parse(sys.stdin.read())")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s", bytes.TrimSpace(out))
	}
	return nil
}

// checkScript parses a module.
func checkScript(t *testing.T, text string) error {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs Node.js")
	}
	path := filepath.Join(t.TempDir(), "block.mjs")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	if out, err := exec.Command(node, "--check", path).CombinedOutput(); err != nil {
		return fmt.Errorf("%s", bytes.TrimSpace(out))
	}
	return nil
}

// foreign are first keys of files that are not our configuration.
var foreign = []string{"apiVersion", "services", "scrape_configs", "groups", "receivers", "image", "replicaCount", "on", "model_list", "general_settings", "sluice", "exporters"}

// checkYAML loads a piece of our configuration, put into a file that has the rest: the providers and models that the piece
// names, and its variables and files. Files of others must only be YAML.
func checkYAML(t *testing.T, text string) error {
	if strings.HasPrefix(text, "  - ") {
		text = "providers:\n" + text // an entry for the list
	}
	var piece map[string]any
	if err := yaml.Unmarshal([]byte(text), &piece); err != nil {
		return err
	}
	for key := range piece {
		if slices.Contains(foreign, key) {
			return nil
		}
	}
	dir := t.TempDir()
	for _, name := range filesIn.FindAllStringSubmatch(text, -1) {
		path := filepath.Join(dir, name[1])
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte("0123456789abcdef0123456789abcdef"), 0o600))
		text = strings.ReplaceAll(text, name[1], path)
	}
	environ := []string{"AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x"} // a bucket needs them
	for _, name := range variablesIn.FindAllStringSubmatch(text, -1) {
		environ = append(environ, name[1]+"="+valueOf(name[1]))
	}
	path := filepath.Join(dir, "sluice.yaml")
	must(t, os.WriteFile(path, []byte(completed(text, piece)), 0o600))
	_, err := config.Load(config.Source{Path: path, Environ: environ})
	return err
}

var (
	variablesIn = regexp.MustCompile(`\$\{([A-Z_0-9]+)\}`)
	filesIn     = regexp.MustCompile(`\$\{file:([^}]+)\}`)
)

// valueOf returns a value for a variable of a configuration.
func valueOf(name string) string {
	if strings.HasSuffix(name, "_SECRET") && strings.Contains(name, "ALERT") {
		return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	}
	return "0123456789abcdef0123456789abcdef"
}

// completed returns a piece of a configuration with the providers and models that it names and does not have.
func completed(text string, piece map[string]any) string {
	have := map[string]bool{}
	for _, p := range entriesOf(piece["providers"]) {
		have[fmt.Sprint(p["name"])] = true
	}
	providers, models := "", ""
	need := func(name any) {
		if name != nil && !have[fmt.Sprint(name)] {
			have[fmt.Sprint(name)] = true
			providers += fmt.Sprintf("  - {name: %v, kind: openai, api_key: x}\n", name)
		}
	}
	ids := map[string]bool{}
	for _, m := range entriesOf(piece["models"]) {
		ids[fmt.Sprint(m["id"])] = true
		need(m["provider"])
		for _, target := range entriesOf(m["targets"]) {
			need(target["provider"])
		}
	}
	named := []any{}
	for _, m := range entriesOf(piece["models"]) {
		fallbacks, _ := m["fallbacks"].([]any)
		named = append(named, fallbacks...)
	}
	aliases, _ := piece["aliases"].(map[string]any)
	for _, id := range aliases {
		named = append(named, id)
	}
	for _, id := range named {
		if !ids[fmt.Sprint(id)] && !strings.HasPrefix(fmt.Sprint(id), "sandbox/") {
			ids[fmt.Sprint(id)] = true
			need("the-rest")
			models += fmt.Sprintf("  - {id: %v, provider: the-rest, plan: free, context_length: 8192, max_output: 4096}\n", id)
		}
	}
	return section(section(text, "models:", models), "providers:", providers)
}

// section adds entries to a list of a file, which may have to begin.
func section(text, name, entries string) string {
	switch {
	case entries == "":
		return text
	case strings.Contains("\n"+text, "\n"+name+"\n"):
		return strings.TrimPrefix(strings.Replace("\n"+text, "\n"+name+"\n", "\n"+name+"\n"+entries, 1), "\n")
	}
	return text + name + "\n" + entries
}

func entriesOf(v any) (out []map[string]any) {
	entries, _ := v.([]any)
	for _, e := range entries {
		if m, ok := e.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

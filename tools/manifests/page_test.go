package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mattn/go-shellwords"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
)

// follower reads docs/run/kubernetes.md: the values of the release so far, the keys of its secret, and what there is.
type follower struct {
	t      *testing.T
	values map[string]any
	files  map[string]string // written by lines of the page
	keys   []string          // of the secret
	there  []string          // objects, as kubectl names them
}

var (
	named   = regexp.MustCompile(`\b(statefulset|service|cronjob|job)/([\w-]+)`)
	heredoc = regexp.MustCompile(`(?ms)^\s*cat > (\S+) <<'END'\n(.*?)^\s*END$`)
)

// TestPage gives the chart what every helm command of the page does, and wants every object that a line names.
func TestPage(t *testing.T) {
	t.Parallel()
	f := &follower{t: t, values: map[string]any{}, files: map[string]string{}}
	rendered := 0
	for _, block := range regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$").FindAllStringSubmatch(read(t, "docs/run/kubernetes.md"), -1) {
		text := heredoc.ReplaceAllStringFunc(block[1], func(s string) string {
			m := heredoc.FindStringSubmatch(s)
			f.files[m[1]] = m[2]
			return ""
		})
		for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " > ")
			words, err := shellwords.Parse(strings.TrimSuffix(line, " &"))
			if err != nil || len(words) < 2 {
				continue // not a command that is looked at
			}
			switch words[0] {
			case "helm":
				f.helm(line, words)
				rendered++
			case "kubectl":
				f.kubectl(line, words)
			case "cp":
				f.files[words[2]] = read(t, words[1])
			}
		}
	}
	if rendered < 6 {
		t.Errorf("the page has %d commands of helm, want at least 6", rendered)
	}
}

// helm renders the chart with the values of a command. What the configuration takes from the environment must be in the secret.
func (f *follower) helm(line string, words []string) {
	f.t.Helper()
	if words[1] == "uninstall" {
		return
	}
	if _, err := os.Stat(filepath.Join(root, words[3])); err != nil {
		f.t.Errorf("%q: %v", line, err)
	}
	if !slices.Contains(words, "--reset-then-reuse-values") {
		f.values = map[string]any{}
	}
	for i, w := range words[:len(words)-1] {
		next := words[i+1]
		var err error
		switch w {
		case "--set":
			err = strvals.ParseInto(next, f.values)
		case "--set-file":
			key, file, _ := strings.Cut(next, "=")
			f.values[key] = f.files[file]
		case "-f":
			f.values, err = chartutil.ReadValues([]byte(f.files[next]))
		}
		if err != nil {
			f.t.Errorf("%q: %v", line, err)
		}
	}
	docs, _, err := render(f.t, f.values)
	if err != nil {
		f.t.Fatalf("%q: %v", line, err)
	}
	f.there = nil
	for _, doc := range docs {
		o, kind, err := decoder(f.t).Decode([]byte(doc), nil, nil)
		if err != nil {
			f.t.Fatal(err)
		}
		f.there = append(f.there, strings.ToLower(kind.Kind)+"/"+o.(interface{ GetName() string }).GetName())
	}
	for _, m := range regexp.MustCompile(`\$\{(\w+)\}`).FindAllStringSubmatch(fmt.Sprint(f.values), -1) {
		if !slices.Contains(f.keys, m[1]) {
			f.t.Errorf("%q: the configuration needs %s, which the secret does not have", line, m[1])
		}
	}
}

// kubectl checks that what a command names is there, and notes what it makes.
func (f *follower) kubectl(line string, words []string) {
	f.t.Helper()
	if strings.Contains(line, "create secret generic sluice ") {
		f.keys = nil
		for _, w := range words {
			if key, ok := strings.CutPrefix(w, "--from-literal="); ok {
				f.keys = append(f.keys, key[:strings.Index(key, "=")])
			}
		}
	}
	for _, m := range named.FindAllStringSubmatch(line, -1) {
		if !slices.Contains(f.there, m[0]) {
			f.t.Errorf("%q names %s, want one of %q", line, m[0], f.there)
		}
	}
	if at := slices.Index(words, "job"); at > 0 && words[at-1] == "create" {
		f.there = append(f.there, "job/"+words[at+1])
	}
	if strings.Contains(line, " exec sluice-0 ") && !slices.Contains(f.there, "statefulset/sluice") {
		f.t.Errorf("%q needs the nodes", line)
	}
}

package main

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
)

var (
	//go:embed install.sh
	installScript string
	//go:embed formula.rb
	formulaText string
)

// exampleURL stands in the formula if the release was built without an address.
const exampleURL = "https://downloads.example.com/sluice"

// installer writes the install script, with the checksums of the archives in it: whoever trusts the script need not
// trust the place of the archives.
func (r *release) installer(w io.Writer) error {
	var sums strings.Builder
	for _, name := range sorted(r.written) {
		if strings.HasSuffix(name, ".tar.gz") {
			fmt.Fprintf(&sums, "%s  %s\n", r.written[name], name)
		}
	}
	_, err := strings.NewReplacer("@VERSION@", r.version, "@URL@", r.url, "@SUMS@", strings.TrimSpace(sums.String())).WriteString(w, installScript)
	return err
}

// formula writes the Homebrew formula.
func (r *release) formula(w io.Writer) error {
	t, err := template.New("formula").Parse(formulaText)
	if err != nil {
		return err
	}
	url := r.url
	if url == "" {
		url = exampleURL
	}
	type archive struct{ Machine, URL, Sum string }
	systems := map[string][]archive{}
	for _, system := range []string{"macos", "linux"} {
		for machine, brewed := range map[string]string{"arm64": "arm", "amd64": "intel"} {
			name := fmt.Sprintf("sluice_%s_%s_%s.tar.gz", r.version, map[string]string{"macos": "darwin", "linux": "linux"}[system], machine)
			if sum := r.written[name]; sum != "" {
				systems[system] = append(systems[system], archive{brewed, url + "/" + name, sum})
			}
		}
	}
	for _, list := range systems {
		slices.SortFunc(list, func(a, b archive) int { return strings.Compare(a.Machine, b.Machine) })
	}
	return t.Execute(w, map[string]any{"Version": r.version, "Systems": systems, "Example": r.url == ""})
}

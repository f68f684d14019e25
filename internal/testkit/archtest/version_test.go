package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/kit/buildinfo"
)

// Files that name the version name the one of this source: those in the table must, and pages that name a package.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	check := func(file, pattern string) (named bool) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			named = true
			if m[1] != buildinfo.Release {
				t.Errorf("%s has version %s, want %s", file, m[1], buildinfo.Release)
			}
		}
		return named
	}
	for file, pattern := range map[string]string{
		"docs/run/install.md":           `sluice_([\d.]+)_amd64\.deb`,
		"docs/run/kubernetes.md":        `sluice:([\d.]+)`,
		"api/openapi.yaml":              `(?m)(?:version|example): (\d+\.\d+\.\d+)\}?$`,
		"deploy/helm/sluice/Chart.yaml": `(?m)^(?:v|appV)ersion: ([\d.]+)$`,
	} {
		if !check(file, pattern) {
			t.Errorf("%s names no version", file)
		}
	}
	err := fs.WalkDir(os.DirFS(root), "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") && !strings.HasPrefix(name, "docs/releases/") {
			check(name, `sluice[_-](\d+\.\d+\.\d+)[_-][\w.]*`)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sluice/internal/kit/buildinfo"
)

// Files that name the version name the one of this source.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	for file, pattern := range map[string]string{
		"docs/start.md":                        `sluice_([\d.]+)_amd64\.deb`,
		"api/openapi.yaml":                     `(?m)version: (\d+\.\d+\.\d+)\}`,
		"deploy/kubernetes/kustomization.yaml": `newTag: ([\d.]+)`,
		"deploy/kubernetes/README.md":          `/sluice:([\d.]+)`,
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names no version", file)
		}
		for _, m := range found {
			if m[1] != buildinfo.Version {
				t.Errorf("%s has version %s, want %s", file, m[1], buildinfo.Version)
			}
		}
	}
}

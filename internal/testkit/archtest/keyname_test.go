package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// Whoever follows one page after the other sets the key once: every command, page and document calls its variable
// SLUICE_KEY, as the command line does.
func TestOneNameForTheKey(t *testing.T) {
	t.Parallel()
	other := regexp.MustCompile(`SLUICE_API_KEY|SERVICE_(API_)?KEY|Bearer \$\{?(env:|process\.env\.)?(KEY|API_KEY)\b`)
	places := []string{"README.md", "docs", "api", "internal/web/front", "internal/web/dashboard", "internal/web/webui/sources", "internal/web/support"}
	read := 0
	for _, place := range places {
		err := filepath.WalkDir(filepath.Join("..", "..", "..", place), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !slices.Contains([]string{".md", ".go", ".templ", ".js", ".txt", ".yaml", ".json"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			read++
			for _, name := range other.FindAllString(string(text), -1) {
				t.Errorf("%s has %s, want SLUICE_KEY", path, name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 50 {
		t.Errorf("only %d files were read", read)
	}
}

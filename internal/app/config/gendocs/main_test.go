package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFieldDocsAreFresh(t *testing.T) {
	t.Parallel()
	want, err := generate(filepath.Join("..", "config.go"), filepath.Join("..", "models.go"), filepath.Join("..", "prices.go"), filepath.Join("..", "alerts.go"), filepath.Join("..", "video.go"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", "fielddocs_gen.go"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("fielddocs_gen.go does not match the comments in config.go; run go generate ./internal/app/config")
	}
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ source, want, wantErr string }{
		"comment in one line": {
			source: "type T struct {\n// One\n// two.\nA int `yaml:\"a\"`\nb int\n}",
			want:   "\"T.A\": \"One two.\",\n",
		},
		"not a struct":    {source: "type T int", want: "map[string]string{}"},
		"comment missing": {source: "type T struct {\nA int `yaml:\"a\"`\n}", wantErr: "T.A has no comment"},
		"not Go":          {source: "type", wantErr: "expected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "types.go")
			if err := os.WriteFile(file, []byte("package config\n"+test.source+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := generate(file)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("generate(%q) error = %v, want %q", test.source, err, test.wantErr)
				}
				return
			}
			if err != nil || !strings.Contains(string(got), test.want) {
				t.Errorf("generate(%q) = %q, %v, want %q in it", test.source, got, err, test.want)
			}
		})
	}
}

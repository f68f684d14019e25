package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTighten: what templ writes for a small template becomes calls of package markup.
func TestTighten(t *testing.T) {
	t.Parallel()
	loose, err := os.ReadFile("testdata/loose.txt")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/tight.txt")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tighten(loose)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("tighten(loose.txt) = %s\nwant tight.txt", got)
	}
	if again, err := tighten(got); err != nil || !bytes.Equal(again, got) {
		t.Errorf("tighten() of its own output = %s, %v, want the same", again, err)
	}
}

// TestTemplatesAreTight: nobody forgot the second step after a change of a template.
func TestTemplatesAreTight(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../../*/*_templ.go")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d templates, %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, rest := range []string{"templruntime", "JoinStringErrs", "JoinURLErrs"} {
			if strings.Contains(string(text), rest) {
				t.Errorf("%s has %s: run go generate in its folder", name, rest)
			}
		}
	}
}

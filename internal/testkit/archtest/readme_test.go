package archtest

import (
	"bytes"
	"os"
	"testing"
)

// mostReadme is how many lines README.md may have: a stranger reads it to the end. What is longer belongs to a page of docs/.
const mostReadme = 120

func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > mostReadme {
		t.Errorf("README.md has %d lines, want %d at most", n, mostReadme)
	}
}

package main

import (
	"bytes"
	"os"
	"testing"
)

// TestWritten fails if the file was changed by hand, or not written again.
func TestWritten(t *testing.T) {
	t.Parallel()
	want, err := dashboard()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../deploy/grafana/sluice.json")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("deploy/grafana/sluice.json is not what the table says (%v): run go generate ./tools/dashboard", err)
	}
}

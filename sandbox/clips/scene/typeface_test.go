package scene

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"golang.org/x/image/font/gofont/gomedium"
)

// TestTypeface: the compressed font is the one of the module.
func TestTypeface(t *testing.T) {
	t.Parallel()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, gomedium.TTF) {
		t.Errorf("gomedium.ttf.gz has %d bytes (%v), and is not the font of the module: run go generate", len(text), err)
	}
	if _, err := typeface(); err != nil {
		t.Errorf("typeface() = %v", err)
	}
}

package scene

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"sync"

	"golang.org/x/image/font/opentype"
)

//go:generate go run ./genfont

// packed is gomedium.TTF of golang.org/x/image, compressed: half of its 157 KB.
//
//go:embed gomedium.ttf.gz
var packed []byte

// typeface returns the font of the captions, and reads it if this is the first call.
var typeface = sync.OnceValues(func() (*opentype.Font, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	return opentype.Parse(text)
})

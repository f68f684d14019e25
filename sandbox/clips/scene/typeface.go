package scene

import (
	"sync"

	"golang.org/x/image/font/gofont/gomedium"
	"golang.org/x/image/font/opentype"
)

// typeface returns the font of the captions, and reads it if this is the first call.
var typeface = sync.OnceValues(func() (*opentype.Font, error) { return opentype.Parse(gomedium.TTF) })

//go:build !race

package app_test

import "sluice/internal/video"

// raced reports whether the race detector watches.
const raced = false

// builtInRenderer is the renderer of apps in tests; nil: their own.
var builtInRenderer video.Renderer

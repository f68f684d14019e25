//go:build !race

package app_test

import "sluice/internal/video"

// builtInRenderer is the renderer of apps in tests; nil: their own.
var builtInRenderer video.Renderer

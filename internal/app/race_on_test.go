//go:build race

package app_test

import (
	"context"
	"errors"
	"io"
	"strings"

	"sluice/internal/video"
)

// raced reports whether the race detector watches.
const raced = true

// builtInRenderer draws no picture: under the race detector a frame takes a second, and drawing has tests of its
// own. What is about jobs is the same. A size that only a patient person would ask for never gets ready.
var builtInRenderer video.Renderer = sketcher{}

type sketcher struct{}

func (sketcher) Render(ctx context.Context, w io.Writer, t *video.Task) error {
	if t.Width*t.Seconds > 10_000 {
		<-ctx.Done()
		return errors.Join(ctx.Err(), context.Cause(ctx))
	}
	t.Progress(50)
	_, err := io.WriteString(w, "\x00\x00\x00\x18ftyp"+strings.Repeat(t.Prompt, 100))
	return err
}

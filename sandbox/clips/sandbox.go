// Package clips renders video clips without a vendor: landscapes that are computed from the words
// of the prompt. It is not a generative model, and its clips say so, in the picture and in the
// file.
//
// Package scene draws the pictures, h264 encodes them, and mp4 puts them into a file. This package
// connects the three and keeps a clip within its size. The same Spec always gives the same bytes,
// on one core or many.
package clips

import (
	"context"
	"fmt"
	"io"
	"strings"

	"sluice/sandbox/clips/h264"
	"sluice/sandbox/clips/mp4"
	"sluice/sandbox/clips/scene"
)

// Spec describes the clip to render. Width and Height must be even, from 16 to 4096 pixels.
type Spec struct {
	Prompt        string
	Width, Height int
	Seconds       int
}

const (
	// fps is the number of pictures per second.
	fps = 24
	// Every keyInterval-th picture can be decoded without the others, so that players can seek to
	// it.
	keyInterval = 2 * fps
	// titleLimit is how many characters of the prompt go into the file's title.
	titleLimit = 1000
)

// Render draws the clip and writes it to w as an MP4 file whose index comes first. If progress is
// not nil, it is called with a number that rises from 0 to 100. When ctx ends, Render returns its
// error within the time that one picture takes, and has written nothing.
//
// The coded pictures are kept in memory until the end: at most 8 MB for 20 seconds of 1920x1080.
func Render(ctx context.Context, w io.Writer, s Spec, progress func(percent int)) error {
	c, err := newClip(s)
	if err != nil {
		return err
	}
	frames := s.Seconds * fps
	samples := make([]mp4.Sample, 0, frames)
	for frame := range frames {
		if err := ctx.Err(); err != nil {
			return err
		}
		if progress != nil {
			progress(frame * 100 / frames)
		}
		samples = append(samples, c.next())
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	movie := mp4.Movie{
		Width: s.Width, Height: s.Height, FPS: fps, SPS: c.encoder.SPS(), PPS: c.encoder.PPS(),
		Title: title(s.Prompt), Comment: scene.Notice,
	}
	if err := mp4.Write(w, movie, samples); err != nil {
		return fmt.Errorf("writing the clip: %w", err)
	}
	if progress != nil {
		progress(100)
	}
	return nil
}

// clip is the state of a clip that is being rendered.
type clip struct {
	scene   *scene.Scene
	encoder *h264.Encoder
	rate    rate
	frame   int // number of the next picture
}

// newClip checks the spec and prepares the scene and the encoder.
func newClip(s Spec) (*clip, error) {
	if s.Seconds < 1 {
		return nil, fmt.Errorf("a clip of %d seconds has no pictures", s.Seconds)
	}
	encoder, err := h264.New(s.Width, s.Height, fps)
	if err != nil {
		return nil, err
	}
	sc, err := scene.New(s.Prompt, s.Width, s.Height, fps, s.Seconds)
	if err != nil {
		return nil, fmt.Errorf("preparing the scene: %w", err)
	}
	return &clip{scene: sc, encoder: encoder, rate: newRate(s.Width, s.Height)}, nil
}

// next renders and encodes the next picture.
func (c *clip) next() mp4.Sample {
	key := c.frame%keyInterval == 0
	// The encoder calls back for horizontal bands of the picture, from several goroutines.
	data := c.encoder.Encode(key, c.rate.qp(key), func(p *h264.Planes, y0, y1 int) {
		c.scene.Draw(p.Y, p.U, p.V, p.Stride, c.frame, y0, y1)
	})
	c.rate.spend(len(data))
	c.frame++
	return mp4.Sample{Data: data, Key: key}
}

// title returns the prompt as one line for the file's tags.
func title(prompt string) string {
	line := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(prompt, "")), " "))
	if len(line) > titleLimit {
		line = append(line[:titleLimit], '…')
	}
	return string(line)
}

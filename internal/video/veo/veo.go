// Package veo renders videos with the Veo models of the Gemini API. A video is a long-running
// operation whose result names a file.
package veo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"

	"sluice/internal/video"
)

// Vendor is an API that offers Veo. It implements video.Vendor.
type Vendor struct {
	caller *video.Caller
	model  string
}

// New returns the API that begins at baseURL, such as
// https://generativelanguage.googleapis.com/v1beta.
func New(baseURL, key, model string) (*Vendor, error) {
	c, err := video.NewCaller(baseURL, http.Header{"X-Goog-Api-Key": {key}}, key)
	if err != nil {
		return nil, err
	}
	return &Vendor{c, model}, nil
}

// request starts an operation.
type request struct {
	Instances  []instance `json:"instances"`
	Parameters parameters `json:"parameters"`
}

type instance struct {
	Prompt string `json:"prompt"`
}

// parameters describe the video. The values that each field may have are those of the API's
// documentation.
type parameters struct {
	AspectRatio     string `json:"aspectRatio"`
	Resolution      string `json:"resolution"`
	DurationSeconds int    `json:"durationSeconds"`
	SampleCount     int    `json:"sampleCount"`
}

// operation is the state of an operation.
type operation struct {
	Name  string `json:"name"`
	Done  bool   `json:"done"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Response struct {
		Video struct {
			Samples []struct {
				Video struct {
					URI string `json:"uri"`
				} `json:"video"`
			} `json:"generatedSamples"`
			// Videos that the safety filters removed, and why ("responsible AI").
			Filtered int      `json:"raiMediaFilteredCount"`
			Reasons  []string `json:"raiMediaFilteredReasons"`
		} `json:"generateVideoResponse"`
	} `json:"response"`
}

// named matches the names that an operation may have. The name becomes part of a URL path, so
// nothing else is accepted.
var named = regexp.MustCompile(`^models/[A-Za-z0-9._-]+/operations/[A-Za-z0-9._-]+$`)

// Begin implements video.Vendor.
func (v *Vendor) Begin(ctx context.Context, t *video.Task) (string, error) {
	var op operation
	err := v.caller.AskJSON(ctx, http.MethodPost, v.caller.At("/models/"+v.model+":predictLongRunning", nil), request{[]instance{{t.Prompt}}, form(t)}, &op)
	if err != nil {
		return "", video.Final(err)
	}
	if !named.MatchString(op.Name) {
		return "", errors.New("the provider returned an unusable operation name")
	}
	return op.Name, nil
}

// form returns the offered parameters that are closest to the task: portrait or landscape, and 720p
// or 1080p. A 1080p video always has 8 seconds. Otherwise the length is the shortest offered one
// that is not too short, or else the longest.
func form(t *video.Task) parameters {
	p := parameters{AspectRatio: "16:9", Resolution: "720p", DurationSeconds: 8, SampleCount: 1}
	if t.Height > t.Width {
		p.AspectRatio = "9:16"
	}
	if min(t.Width, t.Height) >= 1080 {
		p.Resolution = "1080p"
		return p
	}
	for _, n := range []int{4, 6} {
		if t.Seconds <= n {
			p.DurationSeconds = n
			break
		}
	}
	return p
}

// Fit implements video.Fitted.
func (*Vendor) Fit(t *video.Task) (width, height, seconds int) {
	p := form(t)
	if width, height = 1280, 720; p.Resolution == "1080p" {
		width, height = 1920, 1080
	}
	if p.AspectRatio == "9:16" {
		width, height = height, width
	}
	return width, height, p.DurationSeconds
}

// Look implements video.Vendor. The API reports no progress.
func (v *Vendor) Look(ctx context.Context, upstream string) (video.Sight, error) {
	var op operation
	if err := v.caller.AskJSON(ctx, http.MethodGet, v.caller.At("/"+upstream, nil), nil, &op); err != nil {
		return video.Sight{}, video.Final(err)
	}
	result := op.Response.Video
	switch {
	case !op.Done:
		return video.Sight{}, nil
	case op.Error != nil && (video.Moderates(op.Error.Message) || op.Error.Code == invalidArgument):
		return video.Sight{}, video.Refuse(video.Moderated, "operation ended with code %d", op.Error.Code)
	case op.Error != nil:
		return video.Sight{}, video.Refuse(video.Provider, "operation ended with code %d", op.Error.Code)
	case len(result.Samples) > 0 && result.Samples[0].Video.URI != "":
		return video.Sight{Done: true, File: result.Samples[0].Video.URI}, nil
	case result.Filtered > 0 || len(result.Reasons) > 0:
		return video.Sight{}, video.Refuse(video.Moderated, "%d videos were filtered", max(1, result.Filtered))
	}
	return video.Sight{}, video.Refuse(video.Provider, "the operation ended without a video")
}

// invalidArgument is the gRPC code of an operation whose prompt was not accepted.
const invalidArgument = 3

// Fetch implements video.Vendor. The result contains the complete URL of the file. Only the file's
// name is taken from it, so that the key goes to the configured host and to no other.
func (v *Vendor) Fetch(ctx context.Context, s video.Sight, w io.Writer) error {
	name := file.FindStringSubmatch(s.File)
	if name == nil {
		return errors.New("the provider returned an unusable file name")
	}
	return video.Final(v.caller.Fetch(ctx, v.caller.At("/files/"+name[1]+":download", url.Values{"alt": {"media"}}), w))
}

// file extracts the name from the URL of a file.
var file = regexp.MustCompile(`/files/([A-Za-z0-9_-]+):download(?:\?|$)`)

// Drop implements video.Vendor. It does nothing: an operation that nobody waits for ends on its
// own.
func (v *Vendor) Drop(context.Context, string) error { return nil }

// Package veo makes videos with the Veo models of the Gemini API: a long-running operation, whose result
// names a file.
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

// Vendor is one such API.
type Vendor struct {
	caller *video.Caller
	model  string
}

// New returns the API that begins at baseURL, such as https://generativelanguage.googleapis.com/v1beta.
func New(baseURL, key, model string) (*Vendor, error) {
	c, err := video.NewCaller(baseURL, http.Header{"X-Goog-Api-Key": {key}}, key)
	if err != nil {
		return nil, err
	}
	return &Vendor{c, model}, nil
}

type request struct {
	Instances  []instance `json:"instances"`
	Parameters parameters `json:"parameters"`
}

type instance struct {
	Prompt string `json:"prompt"`
}

type parameters struct {
	AspectRatio     string `json:"aspectRatio"`
	Resolution      string `json:"resolution"`
	DurationSeconds int    `json:"durationSeconds"`
	SampleCount     int    `json:"sampleCount"`
}

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
			Filtered int      `json:"raiMediaFilteredCount"`
			Reasons  []string `json:"raiMediaFilteredReasons"`
		} `json:"generateVideoResponse"`
	} `json:"response"`
}

// named is what an operation may be called: it becomes part of an address.
var named = regexp.MustCompile(`^models/[A-Za-z0-9._-]+/operations/[A-Za-z0-9._-]+$`)

// Begin implements video.Vendor.
func (v *Vendor) Begin(ctx context.Context, t *video.Task) (string, error) {
	var op operation
	err := v.caller.AskJSON(ctx, http.MethodPost, v.caller.At("/models/"+v.model+":predictLongRunning", nil), request{[]instance{{t.Prompt}}, form(t)}, &op)
	if err != nil {
		return "", video.Final(err)
	}
	if !named.MatchString(op.Name) {
		return "", errors.New("the provider's operation has no name that can be used")
	}
	return op.Name, nil
}

// form is what is offered that comes closest: upright or lying, 720p or 1080p, which is always 8 seconds
// long; else the shortest length that is not too short, or the longest.
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

// Look implements video.Vendor.
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

// invalidArgument is the code of an operation whose prompt was not accepted.
const invalidArgument = 3

// Fetch implements video.Vendor. The result names the file with its whole address, of which only the name
// is used: the key goes to the configured host and to no other.
func (v *Vendor) Fetch(ctx context.Context, s video.Sight, w io.Writer) error {
	name := file.FindStringSubmatch(s.File)
	if name == nil {
		return errors.New("the provider named a file that cannot be used")
	}
	return video.Final(v.caller.Fetch(ctx, v.caller.At("/files/"+name[1]+":download", url.Values{"alt": {"media"}}), w))
}

// file finds the name in the address of a file.
var file = regexp.MustCompile(`/files/([A-Za-z0-9_-]+):download(?:\?|$)`)

// Drop implements video.Vendor: an operation that nobody waits for ends by itself.
func (v *Vendor) Drop(context.Context, string) error { return nil }

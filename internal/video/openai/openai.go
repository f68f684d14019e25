// Package openai renders videos with the /videos operations of OpenAI's API.
package openai

import (
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"

	"sluice/internal/video"
)

// Vendor is an API that speaks this dialect. It implements video.Vendor.
type Vendor struct {
	caller *video.Caller
	model  string
}

// New returns the API that begins at baseURL, such as https://api.openai.com/v1. An empty key sends
// no credentials.
func New(baseURL, key, model string) (*Vendor, error) {
	// Compatible servers on the operator's machine often need no key.
	header := http.Header{}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	c, err := video.NewCaller(baseURL, header, key)
	if err != nil {
		return nil, err
	}
	return &Vendor{c, model}, nil
}

// job is the state of a video job.
type job struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	Progress int    `json:"progress"`
	Error    struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Begin implements video.Vendor. This operation takes a form, not JSON.
func (v *Vendor) Begin(ctx context.Context, t *video.Task) (string, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, field := range [][2]string{{"model", v.model}, {"prompt", t.Prompt}, {"size", v.size(t)}, {"seconds", seconds(t)}} {
		if err := form.WriteField(field[0], field[1]); err != nil {
			return "", err
		}
	}
	if err := form.Close(); err != nil {
		return "", err
	}
	var j job
	err := v.caller.Ask(ctx, http.MethodPost, v.caller.At("/videos", nil), form.FormDataContentType(), body.Bytes(), &j)
	if err != nil {
		return "", video.Final(err)
	}
	return video.PlainID(j.ID)
}

// size returns the offered size that is closest to the requested one: portrait or landscape, and
// larger only with a pro model.
func (v *Vendor) size(t *video.Task) string {
	// A full-HD side counts as large. Only pro models offer the large sizes.
	large := max(t.Width, t.Height) >= 1080 && min(t.Width, t.Height) >= 1080 || max(t.Width, t.Height) == 1920
	switch large = large && strings.Contains(v.model, "pro"); {
	case large && t.Height > t.Width:
		return "1024x1792"
	case large:
		return "1792x1024"
	case t.Height > t.Width:
		return "720x1280"
	}
	return "1280x720"
}

// seconds returns the shortest offered length that is not too short, or else the longest.
func seconds(t *video.Task) string {
	for _, n := range []int{4, 8} {
		if t.Seconds <= n {
			return strconv.Itoa(n)
		}
	}
	return "12"
}

// Fit implements video.Fitted.
func (v *Vendor) Fit(t *video.Task) (width, height, length int) {
	w, h, _ := strings.Cut(v.size(t), "x")
	width, _ = strconv.Atoi(w) // these are our own numbers
	height, _ = strconv.Atoi(h)
	length, _ = strconv.Atoi(seconds(t))
	return width, height, length
}

// Look implements video.Vendor.
func (v *Vendor) Look(ctx context.Context, upstream string) (video.Sight, error) {
	var j job
	if err := v.caller.AskJSON(ctx, http.MethodGet, v.caller.At("/videos/"+upstream, nil), nil, &j); err != nil {
		return video.Sight{}, video.Final(err)
	}
	switch j.Status {
	case "completed":
		return video.Sight{Done: true, File: upstream}, nil
	case "failed":
		// The log gets the code only: the message may repeat the prompt.
		if video.Moderates(j.Error.Code + " " + j.Error.Message) {
			return video.Sight{}, video.Refuse(video.Moderated, "%s", j.Error.Code)
		}
		return video.Sight{}, video.Refuse(video.Provider, "%s", j.Error.Code)
	}
	return video.Sight{Progress: j.Progress}, nil
}

// Fetch implements video.Vendor. The file has the same id as the job.
func (v *Vendor) Fetch(ctx context.Context, s video.Sight, w io.Writer) error {
	return video.Final(v.caller.Fetch(ctx, v.caller.At("/videos/"+s.File+"/content", nil), w))
}

// Drop implements video.Vendor.
func (v *Vendor) Drop(ctx context.Context, upstream string) error {
	return v.caller.AskJSON(ctx, http.MethodDelete, v.caller.At("/videos/"+upstream, nil), nil, nil)
}

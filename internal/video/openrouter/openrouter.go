// Package openrouter renders videos with the video jobs of OpenRouter, which has models of many vendors.
//
// Each model has resolutions, aspect ratios and lengths of its own, and others are refused. So the list of models is
// read first, and a task becomes what the model has that is closest to it.
package openrouter

import (
	"cmp"
	"context"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/internal/video"
)

const (
	// knownFor is how long the list of models is used before it is read again.
	knownFor = time.Hour
	// listPatience bounds the reading of the list. A job does not need it: it is only more likely to fit.
	listPatience = 10 * time.Second
)

// Vendor is OpenRouter, with one of its models. It implements video.Vendor.
type Vendor struct {
	caller *video.Caller
	model  string

	// mu guards offered and until. It is held while the list is read, so that many jobs read it once.
	mu      sync.Mutex
	offered offer
	until   time.Time // when the list is read again
}

// New returns the API that begins at baseURL, such as https://openrouter.ai/api/v1.
func New(baseURL, key, model string) (*Vendor, error) {
	c, err := video.NewCaller(baseURL, http.Header{"Authorization": {"Bearer " + key}}, key)
	if err != nil {
		return nil, err
	}
	return &Vendor{caller: c, model: model}, nil
}

// offer is what a model can make. An empty list means that nothing is known.
type offer struct {
	ID          string   `json:"id"`
	Resolutions []string `json:"supported_resolutions"`
	Ratios      []string `json:"supported_aspect_ratios"`
	Durations   []int    `json:"supported_durations"`
}

// request submits a job. Whether it has sound is left to the model.
type request struct {
	Model       string `json:"model"`
	Prompt      string `json:"prompt"`
	Duration    int    `json:"duration"`
	Resolution  string `json:"resolution"`
	AspectRatio string `json:"aspect_ratio"`
}

// job is the state of a job.
type job struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Error  string `json:"error"`
}

// Begin implements video.Vendor.
func (v *Vendor) Begin(ctx context.Context, t *video.Task) (string, error) {
	form := v.offer(ctx).form(t)
	form.Model, form.Prompt = v.model, t.Prompt
	var j job
	if err := v.caller.AskJSON(ctx, http.MethodPost, v.caller.At("/videos", nil), form, &j); err != nil {
		return "", video.Final(err)
	}
	return video.PlainID(j.ID)
}

// offer returns what the model can make. If the list cannot be read, the last one stays in use.
func (v *Vendor) offer(ctx context.Context) offer {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Now().Before(v.until) {
		return v.offered
	}
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	var list struct {
		Data []offer `json:"data"`
	}
	if err := v.caller.AskJSON(ctx, http.MethodGet, v.caller.At("/videos/models", nil), nil, &list); err != nil {
		return v.offered
	}
	for _, o := range list.Data {
		if o.ID == v.model {
			v.offered = o
		}
	}
	v.until = time.Now().Add(knownFor)
	return v.offered
}

// form returns what the model has that is closest to a task.
func (o offer) form(t *video.Task) request {
	r := request{Duration: t.Seconds, Resolution: "720p", AspectRatio: "16:9"}
	switch side := min(t.Width, t.Height); {
	case side <= 480:
		r.Resolution = "480p"
	case side >= 1080:
		r.Resolution = "1080p"
	}
	r.Resolution = enough(o.Resolutions, r.Resolution, lines)
	r.Duration = enough(o.Durations, r.Duration, func(n int) int { return n })
	ratios := o.Ratios
	if len(ratios) == 0 {
		ratios = []string{"16:9", "9:16", "1:1"}
	}
	// By logarithms, a ratio and its inverse are equally far from a square.
	distance := func(ratio string) float64 {
		return math.Abs(math.Log(proportion(ratio)) - math.Log(float64(t.Width)/float64(t.Height)))
	}
	r.AspectRatio = slices.MinFunc(ratios, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) })
	return r
}

// enough returns the smallest value of a list that is not below the wanted one, or else the largest. An empty list has
// every value.
func enough[T comparable](list []T, want T, size func(T) int) T {
	if len(list) == 0 {
		return want
	}
	least := size(want)
	return slices.MinFunc(list, func(a, b T) int {
		x, y := size(a), size(b)
		if min(x, y) < least {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	})
}

// lines returns the height of a resolution such as 720p or 4K. An unknown one counts as the smallest, which
// is not chosen if there is another.
func lines(resolution string) int {
	if n, err := strconv.Atoi(strings.TrimSuffix(resolution, "p")); err == nil {
		return n
	}
	if n, ok := map[string]int{"1K": 1080, "2K": 1440, "4K": 2160}[strings.ToUpper(resolution)]; ok {
		return n
	}
	return 0
}

// proportion returns the width of an aspect ratio such as 16:9 by its height. An unknown one is far from all others.
func proportion(ratio string) float64 {
	width, height, _ := strings.Cut(ratio, ":")
	w, errW := strconv.ParseFloat(width, 64)
	h, errH := strconv.ParseFloat(height, 64)
	if errW != nil || errH != nil || w <= 0 || h <= 0 {
		return math.MaxFloat64
	}
	return w / h
}

// Look implements video.Vendor. The API reports no progress.
func (v *Vendor) Look(ctx context.Context, upstream string) (video.Sight, error) {
	var j job
	if err := v.caller.AskJSON(ctx, http.MethodGet, v.caller.At("/videos/"+upstream, nil), nil, &j); err != nil {
		return video.Sight{}, video.Final(err)
	}
	switch j.Status {
	case "completed":
		return video.Sight{Done: true, File: upstream}, nil
	// The log gets no words of an error: they may repeat the prompt.
	case "failed", "cancelled":
		if video.Moderates(j.Error) {
			return video.Sight{}, video.Refuse(video.Moderated, "the job is %s", j.Status)
		}
		return video.Sight{}, video.Refuse(video.Provider, "the job is %s", j.Status)
	case "expired":
		return video.Sight{}, video.Refuse(video.Expired, "the job is %s", j.Status)
	}
	return video.Sight{}, nil
}

// Fetch implements video.Vendor. The reply of a finished job has links to its file as well; they are not used, so that the
// key goes to the configured host and to no other.
func (v *Vendor) Fetch(ctx context.Context, s video.Sight, w io.Writer) error {
	return video.Final(v.caller.Fetch(ctx, v.caller.At("/videos/"+s.File+"/content", url.Values{"index": {"0"}}), w))
}

// Drop implements video.Vendor. It does nothing: jobs cannot be cancelled.
func (v *Vendor) Drop(context.Context, string) error { return nil }

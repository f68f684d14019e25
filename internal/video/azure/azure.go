// Package azure renders videos with the Sora jobs of Azure OpenAI. The service's own video API has
// the same form.
package azure

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"sluice/internal/video"
)

// version is the API version that offers the jobs. Azure requires it in every request.
var version = url.Values{"api-version": {"preview"}}

// Vendor is one Azure OpenAI resource. It implements video.Vendor.
type Vendor struct {
	caller     *video.Caller
	deployment string
}

// New returns the resource whose API begins at baseURL, such as
// https://name.openai.azure.com/openai/v1. The deployment is the name under which the operator has
// deployed the model.
func New(baseURL, key, deployment string) (*Vendor, error) {
	c, err := video.NewCaller(baseURL, http.Header{"Api-Key": {key}}, key)
	if err != nil {
		return nil, err
	}
	return &Vendor{c, deployment}, nil
}

// request creates a job.
type request struct {
	Model    string `json:"model"`
	Prompt   string `json:"prompt"`
	Width    int    `json:"width"`
	Height   int    `json:"height"`
	Seconds  int    `json:"n_seconds"`
	Variants int    `json:"n_variants"`
}

// job is the state of a job, in the reply to creating it and to asking for it.
type job struct {
	ID            string `json:"id"`
	Status        string `json:"status"`
	FailureReason string `json:"failure_reason"`
	Generations   []struct {
		ID string `json:"id"`
	} `json:"generations"`
}

// Begin implements video.Vendor. It asks for one variant: the service sells one video for each job.
func (v *Vendor) Begin(ctx context.Context, t *video.Task) (string, error) {
	var j job
	err := v.caller.AskJSON(ctx, http.MethodPost, v.caller.At("/video/generations/jobs", version),
		request{v.deployment, t.Prompt, t.Width, t.Height, t.Seconds, 1}, &j)
	if err != nil {
		return "", video.Final(err)
	}
	return video.PlainID(j.ID)
}

// Look implements video.Vendor. A generation has an id of its own, and its file is found under
// that.
func (v *Vendor) Look(ctx context.Context, upstream string) (video.Sight, error) {
	var j job
	if err := v.caller.AskJSON(ctx, http.MethodGet, v.job(upstream), nil, &j); err != nil {
		return video.Sight{}, video.Final(err)
	}
	switch j.Status {
	case "succeeded":
		if len(j.Generations) == 0 {
			return video.Sight{}, video.Refuse(video.Provider, "the job succeeded without a generation")
		}
		id, err := video.PlainID(j.Generations[0].ID)
		return video.Sight{Done: true, File: id}, err
	case "failed":
		if video.Moderates(j.FailureReason) {
			return video.Sight{}, video.Refuse(video.Moderated, "%s", j.FailureReason)
		}
		return video.Sight{}, video.Refuse(video.Provider, "%s", j.FailureReason)
	case "cancelled":
		return video.Sight{}, video.Refuse(video.Provider, "the job was cancelled at the provider")
	}
	return video.Sight{Progress: progress[j.Status]}, nil
}

// progress is the approximate progress of a job in each of its states, in percent. The API gives no
// number.
var progress = map[string]int{"queued": 0, "preprocessing": 10, "running": 30, "processing": 80}

// Fetch implements video.Vendor.
func (v *Vendor) Fetch(ctx context.Context, s video.Sight, w io.Writer) error {
	return video.Final(v.caller.Fetch(ctx, v.caller.At("/video/generations/"+s.File+"/content/video", version), w))
}

// Drop implements video.Vendor. It deletes the job.
func (v *Vendor) Drop(ctx context.Context, upstream string) error {
	return v.caller.AskJSON(ctx, http.MethodDelete, v.job(upstream), nil, nil)
}

// job returns the URL of a job.
func (v *Vendor) job(id string) string { return v.caller.At("/video/generations/jobs/"+id, version) }

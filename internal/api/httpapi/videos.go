package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/video"
)

// The operations in this file are those of OpenAI's /videos: a second form of the same jobs (docs/api.md#videos-in-openais-form).

// openVideo is a job in OpenAI's form. Its libraries expect every member, so those without a value are null.
type openVideo struct {
	ID          string      `json:"id"`
	Object      string      `json:"object"`
	Model       string      `json:"model"`
	Status      string      `json:"status"`
	Progress    int         `json:"progress"`
	CreatedAt   int64       `json:"created_at"`
	CompletedAt *int64      `json:"completed_at"`
	ExpiresAt   *int64      `json:"expires_at"`
	Size        string      `json:"size"`
	Seconds     string      `json:"seconds"`
	Prompt      string      `json:"prompt"`
	RemixOf     *string     `json:"remixed_from_video_id"` // always null: nothing here makes remixes
	Error       *videoError `json:"error"`
}

// videoError says why a job has no video.
type videoError struct {
	Code    video.Reason `json:"code"`
	Message string       `json:"message"`
}

// openVideoList is one page of jobs in OpenAI's form.
type openVideoList struct {
	Object  string      `json:"object"`
	Data    []openVideo `json:"data"`
	FirstID *string     `json:"first_id"`
	LastID  *string     `json:"last_id"`
	HasMore bool        `json:"has_more"`
}

// openStatus has the states that OpenAI's form calls otherwise. It has none for a job that was cancelled.
var openStatus = map[video.Status]string{video.Running: "in_progress", video.Succeeded: "completed", video.Cancelled: "failed"}

// cancelledCode is the code of a job that was cancelled, which only this form reports as an error.
const cancelledCode video.Reason = "cancelled"

// whyFailed says in words why a job has no video.
var whyFailed = map[video.Reason]string{
	video.Moderated:   "The provider's moderation refused the prompt or the video. Change the prompt.",
	video.Rejected:    "The provider cannot make a video of this size and length. Choose another.",
	video.Expired:     "The video was not ready in time. Create it again.",
	video.TooLarge:    "The file is larger than this service allows. Choose a smaller size or a shorter length.",
	video.Interrupted: "The work on the video was interrupted too often. Create it again.",
	video.Provider:    "The provider failed. Create the video again.",
	video.Internal:    "This service failed. Create the video again.",
	cancelledCode:     "The job was cancelled.",
}

// openVideoOf converts a job.
func openVideoOf(j *video.Job) openVideo {
	out := openVideo{
		ID: j.ID, Object: "video", Model: j.Model, Status: string(j.Status), Progress: j.Progress, CreatedAt: j.CreatedAt.Unix(),
		Size: fmt.Sprintf("%dx%d", j.Width, j.Height), Seconds: strconv.Itoa(j.Seconds), Prompt: j.Prompt,
	}
	if name, ok := openStatus[j.Status]; ok {
		out.Status = name
	}
	if j.Status.Final() {
		out.CompletedAt, out.ExpiresAt = unix(j.FinishedAt), unix(j.ExpiresAt)
	}
	reason := j.Reason
	if j.Status == video.Cancelled {
		reason = cancelledCode
	}
	if reason != "" {
		out.Error = &videoError{reason, whyFailed[reason]}
	}
	return out
}

// unix returns a time in Unix seconds.
func unix(t time.Time) *int64 {
	seconds := t.Unix()
	return &seconds
}

// createOpenVideo serves POST /v1/videos.
func (a *API) createOpenVideo(x *exchange, r *http.Request) error {
	j, err := a.orderVideo(x, r, a.bodies.ReadForm, func(body []byte) (videoOrder, error) {
		req, err := video.ParseVideo(r.Header.Get("Content-Type"), body, a.opts.Videos.Model())
		if err != nil {
			return videoOrder{}, err
		}
		// A form that is sent again has another boundary, so what it says is compared.
		same, err := json.Marshal(req)
		return videoOrder{req, same}, err
	})
	if err != nil {
		return err
	}
	return x.plainJSON(openVideoOf(j))
}

// listOpenVideos serves GET /v1/videos.
func (a *API) listOpenVideos(x *exchange, r *http.Request) error {
	if order := r.URL.Query().Get("order"); order != "" && order != "desc" {
		return fault.New(fault.Invalid, "order must be desc, the newest first; got %q.", excerpt.Of(order, maxEcho)).At("order")
	}
	out := openVideoList{Object: "list", Data: []openVideo{}}
	release, err := a.pageOfVideos(x, r, &out.HasMore, func(j *video.Job) { out.Data = append(out.Data, openVideoOf(j)) })
	defer release()
	if err != nil {
		return err
	}
	if n := len(out.Data); n > 0 {
		out.FirstID, out.LastID = &out.Data[0].ID, &out.Data[n-1].ID
	}
	return x.plainJSON(out)
}

// showOpenVideo serves GET /v1/videos/{id}.
func (a *API) showOpenVideo(x *exchange, r *http.Request) error {
	j, err := a.opts.Videos.Find(r.Context(), x.caller.Account.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.plainJSON(openVideoOf(j))
}

// deleteOpenVideo serves DELETE /v1/videos/{id}.
func (a *API) deleteOpenVideo(x *exchange, r *http.Request) error {
	id := r.PathValue("id")
	if err := a.opts.Videos.Delete(r.Context(), x.caller.Account.ID, id); err != nil {
		return err
	}
	return x.plainJSON(struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{id, "video.deleted", true})
}

// downloadOpenVideo serves GET /v1/videos/{id}/content.
func (a *API) downloadOpenVideo(x *exchange, r *http.Request) error {
	if variant := r.URL.Query().Get("variant"); variant != "" && variant != "video" {
		return fault.New(fault.Invalid, "variant must be video; there are no pictures of videos. Got %q.", excerpt.Of(variant, maxEcho)).At("variant")
	}
	j, file, err := a.opts.Videos.OpenJob(r.Context(), x.caller.Account.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.sendVideo(r, j, file)
}

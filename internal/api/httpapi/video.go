package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"

	"sluice/internal/api/httpserver"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/line/idempotency"
	"sluice/internal/video"
)

const (
	// Number of jobs in a list if the caller does not say, and at most.
	defaultPage = 20
	maxPage     = 100
	// maxVideoBody limits the body that creates a job. The longest prompt fits even if every
	// character is escaped.
	maxVideoBody = 1 << 20
)

// videoReply is a job as the API shows it (docs/api.md#video-job). Times are Unix seconds.
type videoReply struct {
	ID            string            `json:"id"`
	Object        string            `json:"object"`
	Status        video.Status      `json:"status"`
	CreatedAt     int64             `json:"created_at"`
	FinishedAt    int64             `json:"finished_at,omitempty"`
	ExpiresAt     int64             `json:"expires_at"`
	Prompt        string            `json:"prompt"`
	Model         string            `json:"model"`
	Width         int               `json:"width"`
	Height        int               `json:"height"`
	Seconds       int               `json:"n_seconds"`
	Progress      int               `json:"progress"`
	FailureReason video.Reason      `json:"failure_reason,omitempty"`
	Generations   []generationReply `json:"generations,omitempty"`
}

// generationReply is the result of a job.
type generationReply struct {
	ID     string      `json:"id"`
	Output outputReply `json:"output"`
}

type outputReply struct {
	VideoURL string `json:"video_url"`
}

// videoListReply is one page of jobs.
type videoListReply struct {
	Object  string       `json:"object"`
	Data    []videoReply `json:"data"`
	HasMore bool         `json:"has_more"`
}

// videoReply converts a job. Only a succeeded job has a generation, with a signed link to its
// file.
func (a *API) videoReply(j *video.Job) videoReply {
	out := videoReply{
		ID: j.ID, Object: "video.generation.job", Status: j.Status, CreatedAt: j.CreatedAt.Unix(), ExpiresAt: j.ExpiresAt.Unix(),
		Prompt: j.Prompt, Model: j.Model, Width: j.Width, Height: j.Height, Seconds: j.Seconds, Progress: j.Progress, FailureReason: j.Reason,
	}
	if j.Status.Final() {
		out.FinishedAt = j.FinishedAt.Unix()
	}
	if j.Status == video.Succeeded {
		out.Generations = []generationReply{{j.Generation, outputReply{a.opts.Videos.Link(j)}}}
	}
	return out
}

// plainJSON sends v without escaping "&" in links, so that people can copy them from the
// reply.
func (x *exchange) plainJSON(v any) error {
	b, err := jsonscan.Marshal(v)
	if err != nil {
		return err
	}
	return x.json(append(b, '\n'))
}

// createVideo serves POST /v1/video/generations/jobs.
func (a *API) createVideo(x *exchange, r *http.Request) error {
	j, err := a.orderVideo(x, r, a.bodies.Read, func(body []byte) (videoOrder, error) {
		req, err := video.Parse(body, a.opts.Videos.Model())
		return videoOrder{req, body}, err
	})
	if err != nil {
		return err
	}
	return x.plainJSON(a.videoReply(j))
}

// videoOrder is what a door makes of the body of a request for a video.
type videoOrder struct {
	video.Request
	same []byte // equal for two requests that ask for the same
}

// orderVideo reads a request for a video as its door does and creates the job.
func (a *API) orderVideo(x *exchange, r *http.Request, read bodyReader, parse func([]byte) (videoOrder, error)) (*video.Job, error) {
	body, release, err := x.readBody(r, read, maxVideoBody, 1)
	if err != nil {
		return nil, err
	}
	defer release()
	asked, err := decoded(a, x, r, body, parse)
	if err != nil {
		return nil, err
	}
	x.event.Model = asked.Model
	own, err := headerTags(r.Header)
	if err != nil {
		return nil, err
	}
	order := video.Order{Request: asked.Request, Session: sessionOf(r.Header)}
	if order.Request.MaxCost, err = lowerMaxCost(order.Request.MaxCost, r.Header); err != nil {
		return nil, err
	}
	if wanted := a.receiptOf(x, r, body); wanted != nil {
		order.RequestSHA256 = hex.EncodeToString(wanted.Request[:])
	}
	if values := r.Header[idempotency.Header]; values != nil {
		key, err := idempotency.ReadKey(values)
		if err != nil {
			return nil, err
		}
		// Only hashes are stored: the key for finding the earlier job, the body for refusing a
		// different request with the same key.
		repeat, sum := sha256.Sum256([]byte(key)), sha256.Sum256(asked.same)
		order.Repeat, order.Body = repeat[:], sum[:]
	}
	var j *video.Job
	err = a.current(x, func() error {
		order.Caller, order.Limits, order.Tags = x.caller, x.limits(), tagsOf(x.caller.Tags, own, nil)
		created, headroom, repeated, err := a.opts.Videos.Create(r.Context(), order)
		headroom.SetHeader(x.Header())
		if repeated {
			x.Header()["Idempotent-Replayed"] = []string{"true"}
		}
		j = created
		return err
	})
	return j, err
}

// listVideos serves GET /v1/video/generations/jobs.
func (a *API) listVideos(x *exchange, r *http.Request) error {
	out := videoListReply{Object: "list", Data: []videoReply{}}
	release, err := a.pageOfVideos(x, r, &out.HasMore, func(j *video.Job) { out.Data = append(out.Data, a.videoReply(j)) })
	defer release()
	if err != nil {
		return err
	}
	return x.plainJSON(out)
}

// pageOfVideos calls add with each job of the page that the query asks for. The caller calls release once the page is
// sent, whatever the error.
func (a *API) pageOfVideos(x *exchange, r *http.Request, more *bool, add func(*video.Job)) (release func(), err error) {
	release = func() {}
	query := r.URL.Query()
	limit, err := limitOf(query, defaultPage, maxPage)
	if err != nil {
		return release, err
	}
	jobs, rest, err := a.opts.Videos.List(r.Context(), x.caller.Account.ID, query.Get("after"), limit)
	if err != nil {
		return release, err
	}
	*more = rest
	take, release := a.Hold(x.caller.Account.ID)
	for i := range jobs {
		// The prompt itself, and twice while it is encoded.
		if err := take(3 * int64(len(jobs[i].Prompt))); err != nil {
			return release, err
		}
		add(&jobs[i])
	}
	return release, nil
}

// showVideo serves GET /v1/video/generations/jobs/{id}. Jobs of other accounts do not exist
// for the caller.
func (a *API) showVideo(x *exchange, r *http.Request) error {
	j, err := a.opts.Videos.Find(r.Context(), x.caller.Account.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.plainJSON(a.videoReply(j))
}

// cancelVideo serves DELETE /v1/video/generations/jobs/{id}.
func (a *API) cancelVideo(x *exchange, r *http.Request) error {
	j, err := a.opts.Videos.Cancel(r.Context(), x.caller.Account.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.plainJSON(a.videoReply(j))
}

// downloadVideo serves GET /v1/video/generations/{id}/content/video.
func (a *API) downloadVideo(x *exchange, r *http.Request) error {
	j, file, err := a.opts.Videos.Open(r.Context(), x.caller.Account.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.sendVideo(r, j, file)
}

// followLink serves GET /files/{file}: a signed link, which needs no key.
func (a *API) followLink(x *exchange, r *http.Request) error {
	generation, ok := strings.CutSuffix(r.PathValue("file"), video.LinkSuffix)
	if !ok {
		return nothingAt(r)
	}
	query := r.URL.Query()
	j, file, err := a.opts.Videos.OpenLink(r.Context(), generation, query.Get("expires"), query.Get("signature"))
	if err != nil {
		return err
	}
	return x.sendVideo(r, j, file)
}

// sendVideo sends the file, or the range of it that the request asks for, and closes it.
func (x *exchange) sendVideo(r *http.Request, j *video.Job, file io.ReadSeekCloser) error {
	defer file.Close()
	h := x.Header()
	h["Content-Type"] = []string{"video/mp4"}
	h["Etag"] = []string{`"` + j.SHA256 + `"`}
	h["Cache-Control"] = []string{"private, max-age=3600"}
	h["Content-Disposition"] = []string{`inline; filename="` + j.Generation + video.LinkSuffix + `"`}
	out := &httpserver.Held{ResponseWriter: x}
	http.ServeContent(out, r, "", j.FinishedAt, file)
	return x.unsent(out.Status)
}

// unsent returns the fault of a file that could not be sent as it was asked for, by the status that http.ServeContent
// has chosen; 0: it was sent.
func (x *exchange) unsent(status int) error {
	f := &fault.Fault{Kind: fault.Invalid, Code: status}
	switch status {
	case 0:
		return nil
	case http.StatusRequestedRangeNotSatisfiable:
		f.Message = "The requested range is not within the file; Content-Range has its length."
	case http.StatusPreconditionFailed:
		f.Message = "The file does not match If-Match or If-Unmodified-Since."
	default:
		return fault.New(fault.Unavailable, "The file of this video cannot be read at the moment. Try again shortly.")
	}
	// These headers describe the file, not the error.
	for _, name := range []string{"Etag", "Last-Modified", "Cache-Control", "Content-Disposition", "Accept-Ranges"} {
		x.Header().Del(name)
	}
	return f
}

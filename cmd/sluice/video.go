package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/pace"
)

const (
	// pollEvery is the interval between requests for the status of a job.
	pollEvery = 500 * time.Millisecond
	// maxMissed is how many polls in a row may fail, as they do while a server restarts: about ten
	// seconds.
	maxMissed = 20
	barWidth  = 30 // characters
)

// videoCmd groups the commands about videos.
func (p *program) videoCmd() *cobra.Command {
	return group("video", "Create videos", p.videoCreateCmd())
}

// videoCreateCmd creates a video with the key of an account, as any other client would
// (docs/api.md#videos). The request costs what it costs over the API.
func (p *program) videoCreateCmd() *cobra.Command {
	o := &videoOrder{}
	cmd := &cobra.Command{
		Use: "create PROMPT", Short: "Create a video and save it to a file", Args: args("PROMPT"),
		Long: `Create a video on a running server, wait for it and save the file.

The request needs an API key: use --key or set the SLUICE_KEY environment variable.`,
		Example: `  sluice video create "a lighthouse at dusk" --size 1280x720 --seconds 5 --out clip.mp4 --key K`,
		RunE: func(c *cobra.Command, given []string) error {
			o.prompt = given[0]
			return p.createVideo(c, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.size, "size", "854x480", "`width x height`, each 480, 720, 854, 1080, 1280 or 1920")
	flags.IntVar(&o.seconds, "seconds", 5, "`length` in seconds, from 1 to 20")
	flags.StringVar(&o.out, "out", "", "`file` to write (default the video's id with .mp4)")
	flags.StringVar(&o.key, "key", "", "API `key` (default $SLUICE_KEY)")
	flags.StringVar(&o.url, "url", "", "`origin` of the server (default that of the server on the data folder)")
	return cmd
}

// videoOrder holds the arguments and flags of the command. Fields that are empty get their
// defaults in createVideo.
type videoOrder struct {
	prompt, size, out, key, url string
	seconds                     int
}

// videoJob is the part of a job that the command needs (docs/api.md#video-job). Progress is in percent.
type videoJob struct {
	ID            string `json:"id"`
	Status        string `json:"status"`
	Progress      int    `json:"progress"`
	FailureReason string `json:"failure_reason"`
	Generations   []struct {
		ID string `json:"id"`
	} `json:"generations"`
}

// createVideo creates a job, waits for it and saves its file. Unlike other commands it uses
// the public API, because videos belong to the account of the key.
func (p *program) createVideo(c *cobra.Command, o *videoOrder) error {
	body := map[string]any{"prompt": o.prompt, "n_seconds": o.seconds}
	var width, height int
	// The line feed at the end makes Sscanf reject trailing text, as in 10x20x30.
	if n, err := fmt.Sscanf(o.size+"\n", "%dx%d\n", &width, &height); n != 2 || err != nil {
		return misused(c, fmt.Errorf("--size %q is not a size; write it as 1280x720", o.size))
	}
	body["width"], body["height"] = width, height
	// Flags win over the environment and the configuration, as everywhere.
	api := &videoAPI{url: strings.TrimSuffix(o.url, "/"), key: p.setting(o.key, "SLUICE_KEY")}
	if api.key == "" {
		return misused(c, errors.New("no API key; use --key or set SLUICE_KEY"))
	}
	ctx := c.Context()
	if api.url == "" {
		var err error
		if api.url, err = p.origin(ctx); err != nil {
			return err
		}
	}
	var job videoJob
	if err := api.call(ctx, http.MethodPost, "/v1/video/generations/jobs", body, &job); err != nil {
		return err
	}
	if err := p.awaitVideo(ctx, api, &job); err != nil {
		return err
	}
	// Ids of generations are safe as file names.
	if o.out == "" {
		o.out = job.Generations[0].ID + ".mp4"
	}
	size, err := api.save(ctx, job.Generations[0].ID, o.out)
	if err != nil {
		return err
	}
	// The result for --json, with the path as it was written.
	saved := struct {
		Job        string `json:"job"`
		Generation string `json:"generation"`
		File       string `json:"file"`
		Bytes      int64  `json:"bytes"`
	}{job.ID, job.Generations[0].ID, o.out, size}
	return p.print(saved, func(w io.Writer) { fmt.Fprintf(w, "saved %s (%d kB)\n", o.out, (size+999)/1000) })
}

// variable returns an environment variable, or "". It reads p.environ, not the environment of
// the process, so that tests can run in parallel.
func (p *program) variable(name string) string {
	for _, v := range p.environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// awaitVideo polls until the job has succeeded, and updates job. It shows the progress as a bar
// on a terminal and as lines otherwise. An interrupted command does not cancel the job: the
// error says how to find it again.
func (p *program) awaitVideo(ctx context.Context, api *videoAPI, job *videoJob) error {
	// Progress goes to stderr, so that --json output on stdout stays one value.
	show := p.progressLines()
	if isTerminal(p.stderr) {
		show = p.progressBar()
	}
	// missed counts the polls in a row that failed.
	missed := 0
	for {
		show(job)
		switch job.Status {
		case "succeeded":
			if len(job.Generations) == 0 {
				return fmt.Errorf("job %s succeeded but has no video", job.ID)
			}
			return nil
		case "failed":
			return fmt.Errorf("job %s failed: %s", job.ID, job.FailureReason)
		case "cancelled":
			return fmt.Errorf("job %s was cancelled", job.ID)
		}
		if pace.Sleep(ctx, pollEvery) != nil {
			return fmt.Errorf("job %s is still running; GET /v1/video/generations/jobs/%s returns its status", job.ID, job.ID)
		}
		err := api.call(ctx, http.MethodGet, "/v1/video/generations/jobs/"+job.ID, nil, job)
		// A refusal that a retry cannot change ends the wait. Everything else may be a restart
		// of the server.
		if f, refused := errors.AsType[*fault.Fault](err); refused && !f.Retryable() {
			return err
		}
		if missed++; err == nil {
			missed = 0
		}
		if missed == maxMissed {
			return err
		}
	}
}

// progressBar returns a function that draws the progress over its own line. It writes to stderr
// so that stdout has only the result.
func (p *program) progressBar() func(*videoJob) {
	return func(j *videoJob) {
		// Each update ends with padding, so that a shorter status erases a longer one.
		done := barWidth * j.Progress / 100
		fmt.Fprintf(p.stderr, "\r[%s%s] %3d%% %-10s", strings.Repeat("#", done), strings.Repeat("·", barWidth-done), j.Progress, j.Status)
		if j.Status != "queued" && j.Status != "running" {
			fmt.Fprintln(p.stderr)
		}
	}
}

// progressLines returns a function that prints a line when something has changed, so that a log
// does not get a line per poll.
func (p *program) progressLines() func(*videoJob) {
	last := ""
	return func(j *videoJob) {
		if line := fmt.Sprintf("%s %s %d%%", j.ID, j.Status, j.Progress); line != last {
			last = line
			fmt.Fprintln(p.stderr, line)
		}
	}
}

// videoAPI is the public API of a server. url is its origin, without a slash at the end.
type videoAPI struct{ url, key string }

// call runs one operation. An error reply of the server becomes a fault with the server's
// message. in may be nil for a request without a body; out is a pointer.
func (a *videoAPI) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(ctx, adminPatience)
	defer cancel()
	resp, err := a.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(out)
}

// send sends a request and returns the response if its status is 200. The caller closes the
// body. It has no timeout of its own, because a video takes as long as the connection needs.
func (a *videoAPI) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+a.key)
	req.Header.Set("Content-Type", "application/json")
	// The error of net/http repeats the method and the URL, so it is unwrapped below.
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the server at %s: %w", a.url, errors.Unwrap(err))
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	// The form is that of docs/api.md#error-object. A proxy in between may reply with something else.
	var told struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&told); err != nil || told.Error.Message == "" {
		return nil, fmt.Errorf("the server at %s returned %s", a.url, resp.Status)
	}
	return nil, &fault.Fault{Kind: fault.Named("", resp.StatusCode), Message: told.Error.Message}
}

// save downloads a video to path and returns its size in bytes. It writes to a temporary name
// first, so that path never holds half a video.
func (a *videoAPI) save(ctx context.Context, generation, path string) (n int64, err error) {
	resp, err := a.send(ctx, http.MethodGet, "/v1/video/generations/"+generation+"/content/video", nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	// In the same folder as path, so that Rename replaces path in one step.
	f, err := os.Create(path + ".part")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path + ".part")
		}
	}()
	n, err = io.Copy(f, resp.Body)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return 0, fmt.Errorf("download the video: %w", err)
	}
	return n, os.Rename(path+".part", path)
}

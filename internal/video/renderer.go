package video

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Renderer makes videos.
type Renderer interface {
	// Render writes the MP4 file of a task to w. It ends soon when ctx does; where the cause is ErrCancelled,
	// nobody wants the video any more. A *Refusal is final; after any other error the task may come again.
	Render(ctx context.Context, w io.Writer, t *Task) error
}

// Task is what a renderer has to do.
type Task struct {
	Prompt  string
	Width   int
	Height  int
	Seconds int

	// Upstream is the id that an earlier attempt kept; empty: the work has yet to be begun.
	Upstream string
	// Begun keeps the id that the work has at the renderer's, so that another attempt can go on with it.
	// Call it before anything else that can fail.
	Begun func(ctx context.Context, upstream string) error
	// Progress tells how much is done, in percent.
	Progress func(percent int)
}

// Refusal is a failure that another attempt cannot mend.
type Refusal struct {
	Reason Reason
	cause  error
}

// Refuse makes a refusal. The cause is for the log.
func Refuse(r Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: r, cause: fmt.Errorf(format, args...)}
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.cause.Error() }

func (r *Refusal) Unwrap() error { return r.cause }

// Why the work on a job ends early.
var (
	// ErrCancelled means that the caller cancelled the job.
	ErrCancelled = errors.New("the job was cancelled")

	errLost     = errors.New("the claim on the job has lapsed")
	errStopping = errors.New("the process stops")
	errOverdue  = errors.New("the job was not ready in time")
	errTooLarge = errors.New("the file exceeds its bound")
)

// Engine is a renderer as configured. Credential tells apart what it is called with, without being it.
type Engine struct {
	Name       string
	Credential string
	Renderer   Renderer
}

// bounded passes on what is written, up to a number of bytes.
type bounded struct {
	to   io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		return 0, errTooLarge
	}
	b.left -= int64(len(p))
	return b.to.Write(p)
}

package video

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sluice/internal/ledger/price"
)

// Renderer makes videos. It must be safe for concurrent use.
type Renderer interface {
	// Render writes the MP4 file of a task to w. It returns soon after ctx ends; if the cause is
	// ErrCancelled, nobody wants the video any more. A *Refusal is final. After any other error the
	// task may be tried again.
	Render(ctx context.Context, w io.Writer, t *Task) error
}

// Task is what a renderer has to do.
type Task struct {
	// Width and Height are in pixels.
	Prompt  string
	Width   int
	Height  int
	Seconds int

	// Upstream is the id that an earlier attempt stored. If it is empty, the work has not started
	// yet.
	Upstream string
	// Begun stores the id that the work has at the vendor, so that another attempt can continue it.
	// Call it before anything else that can fail.
	Begun func(ctx context.Context, upstream string) error
	// Progress reports how much is done, in percent. It may be called often.
	Progress func(percent int)
}

// Refusal is a failure that a retry cannot fix.
type Refusal struct {
	Reason Reason
	cause  error // for the log; callers see only the reason
}

// Refuse returns a Refusal. The formatted cause is for the log.
func Refuse(r Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: r, cause: fmt.Errorf(format, args...)}
}

// Error implements error.
func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.cause.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.cause }

// The causes for which the rendering of a job ends early.
var (
	// ErrCancelled means that the caller canceled the job.
	ErrCancelled = errors.New("the job was cancelled")

	errLost     = errors.New("the claim on the job has lapsed")
	errStopping = errors.New("the process stops")
	errOverdue  = errors.New("the job was not ready in time")
	errTooLarge = errors.New("the file exceeds its bound")
)

// Engine is a configured renderer. Credential identifies the credential that the renderer uses,
// without containing it, so that a job can continue with the one that it was started with.
type Engine struct {
	Name       string
	Credential string
	Renderer   Renderer
	Price      *price.Series // nil: not known
}

// Fitted is implemented by renderers, and by vendors, that make videos of other sizes and lengths than they are asked for.
type Fitted interface {
	// Fit returns what is made of a task, and has to be paid for. It does not change the task.
	Fit(t *Task) (width, height, seconds int)
}

// fit returns what the engine makes of a task.
func (e *Engine) fit(t *Task) (width, height, seconds int) {
	if f, ok := e.Renderer.(Fitted); ok {
		return f.Fit(t)
	}
	return t.Width, t.Height, t.Seconds
}

// bounded is a writer that passes data on up to a number of bytes and then fails.
type bounded struct {
	to   io.Writer
	left int64
}

// Write implements io.Writer. It writes nothing of what would exceed the limit.
func (b *bounded) Write(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		return 0, errTooLarge
	}
	b.left -= int64(len(p))
	return b.to.Write(p)
}

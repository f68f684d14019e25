// Package video is one video job, from the parsed request to the settled file.
//
// A job is a row in the Store. Create validates, admits and keeps it before the caller hears of it; Run
// claims waiting jobs for a while at a time, has a Renderer write their file, and settles them. Each
// change of a job is a rule in this package, applied by the Store under the row's lock, with the job's
// settlement in the same transaction: whenever a process dies, a job is settled once or still to be done. How frames come about is the renderers' business, where files lie that of package blob.
package video

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/usage"
)

// Status is what a job is at (docs/api.md#video-job).
type Status string

const (
	Queued    Status = "queued"
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Final reports whether nothing follows the status.
func (s Status) Final() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Reason is why a job failed.
type Reason string

const (
	Moderated   Reason = "moderation"     // the provider's moderation refused the prompt or the video
	Rejected    Reason = "rejected"       // the provider does not make such a video
	Expired     Reason = "expired"        // it was not ready in time
	TooLarge    Reason = "too_large"      // the file exceeds the bound
	Interrupted Reason = "interrupted"    // its workers died, again and again
	Provider    Reason = "provider_error" // the provider failed
	Internal    Reason = "internal_error" // we did
)

// Job is one video to be made.
type Job struct {
	ID        string
	AccountID string
	KeyID     string
	Plan      account.Plan // held when it was created
	Tier      account.Plan // of the video model then
	Request
	CostMilli int64 // thousandths of requests, and of units

	// Repeat is a hash of the caller's Idempotency-Key, Body one of what was asked with it; nil: there was none.
	Repeat, Body []byte

	Status    Status
	Progress  int // percent
	Reason    Reason
	CreatedAt time.Time
	// StartedAt is when it first ran; zero: it never did.
	StartedAt  time.Time
	FinishedAt time.Time
	ExpiresAt  time.Time

	// Attempts counts how often it was claimed. Node has it until Until; a queued job waits until then.
	Attempts int
	Node     string
	Until    time.Time

	// Renderer made it, or is at it, with this credential; Upstream is the job's id over there.
	Renderer   string
	Credential string
	Upstream   string

	Generation string // the id of the finished video
	Size       int64  // of its file
	SHA256     string
}

// file is the name of what an attempt makes.
func (j *Job) file(attempt int) string { return fmt.Sprintf("videos/%s-%d.mp4", j.ID, attempt) }

// heldBy reports whether a claim on the job still stands.
func (j *Job) heldBy(c *Job) bool {
	return j.Status == Running && j.Node == c.Node && j.Attempts == c.Attempts
}

// finish gives the job its last state.
func (j *Job) finish(s Status, now time.Time, keep time.Duration) {
	j.Status, j.FinishedAt, j.ExpiresAt, j.Node, j.Until = s, now, now.Add(keep), "", time.Time{}
}

// settlement is what the finished job came to. Its creation consumed its requests for good; its units are
// counted unless it failed or never ran (docs/accounting.md#what-costs-what).
func (j *Job) settlement() *usage.Settlement {
	s := &usage.Settlement{
		ID: j.ID, At: j.CreatedAt, AccountID: j.AccountID, KeyID: j.KeyID, Plan: j.Plan.String(), Tier: j.Tier.String(),
		ModelAsked: j.Model, ModelUsed: j.Model, Provider: j.Renderer, Status: 200, Latency: j.FinishedAt.Sub(j.CreatedAt),
		RequestMilli: j.CostMilli, UnitMilli: j.CostMilli,
	}
	switch j.Status {
	case Succeeded:
		s.End = usage.EndComplete
	case Cancelled:
		s.End = usage.EndHangUp
	default:
		s.End = usage.EndFailed
	}
	if j.Status == Failed || j.StartedAt.IsZero() {
		s.UnitMilli = 0
	}
	return s
}

// Load is what an account has with us.
type Load struct {
	Unfinished int
	Bytes      int64     // of its stored files
	NextExpiry time.Time // of one of them; zero: there is none
}

// Store keeps jobs.
type Store interface {
	// CreateVideo adds a job if allow lets it, given what its account has; no other job of the account is
	// added meanwhile. Where the account has a job with the same Repeat, that one is returned instead.
	CreateVideo(ctx context.Context, j *Job, allow func(Load) error) (*Job, error)
	// FindVideo returns a job by its id, or by that of its generation; nil: there is none.
	FindVideo(ctx context.Context, id string) (*Job, error)
	// FindRepeat returns the account's job with that Repeat; nil: there is none.
	FindRepeat(ctx context.Context, accountID string, repeat []byte) (*Job, error)
	// Videos returns an account's jobs, newest first, from behind a job on; nil: from the newest.
	Videos(ctx context.Context, accountID string, behind *Job, most int) ([]Job, error)
	// VideosSince returns all jobs created since a time.
	VideosSince(ctx context.Context, since time.Time) ([]Job, error)
	// ClaimVideo applies claim to the job whose turn it is: one that is queued or whose claim has lapsed, of
	// the account that has waited longest since it had its last turn. Nil: none waits.
	ClaimVideo(ctx context.Context, now time.Time, claim func(*Job)) (*Job, error)
	// ChangeVideo applies a change under the row's lock, and stores the settlement with it. Where the change
	// returns an error, nothing is stored and that error returned. Without such a job it returns ErrGone.
	ChangeVideo(ctx context.Context, id string, change func(*Job) (*usage.Settlement, error)) (*Job, error)
	// ReleaseVideos ends the claims of a node.
	ReleaseVideos(ctx context.Context, node string) error
	// ExpiredVideos returns jobs whose time is over.
	ExpiredVideos(ctx context.Context, now time.Time, most int) ([]Job, error)
	// DeleteVideo forgets a job.
	DeleteVideo(ctx context.Context, id string) error
	// Secret returns the secret of that name, which is fresh where there was none.
	Secret(ctx context.Context, name string, fresh []byte) ([]byte, error)
}

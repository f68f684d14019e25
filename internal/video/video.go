// Package video is one video job, from the parsed request to the settled file.
//
// A job is a row in the Store. Create validates, admits and keeps it before the caller hears of it; Run
// claims waiting jobs for a while at a time, has a Renderer write their file, and settles them. Each
// change of a job is a rule in this package, applied by the Store under the row's lock, with the job's
// settlement in the same transaction: whenever a process dies, a job is settled once or still to be done. How frames come about is the renderers' business, where files lie that of package blob.
package video

import (
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/usage"
)

// Status is what a job is at (spec: Video job).
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

// Store is all that a Line keeps in the database; sqlstore implements it. The parts stand beside the code that uses
// them.
type Store interface {
	JobStore
	QueueStore
	ExpiryStore
	SecretStore
}

// Package video runs video jobs, from the parsed request to the settled file.
//
// A job is a row in the Store. Create checks, admits and stores a job before the caller gets a
// reply. Run claims waiting jobs for a limited time, lets a Renderer write their files, and settles
// them. Each change of a job is a rule in this package. The Store applies it under the row's lock
// and writes the job's settlement in the same transaction. So whenever a process dies, a job has
// been settled exactly once or is still to be done.
//
// How pictures are made is up to the renderers. Where files are stored is up to package blob.
package video

import (
	"encoding/hex"
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// Status is the state of a job (docs/api.md#video-job).
type Status string

const (
	Queued    Status = "queued"
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Final reports whether the status never changes again.
func (s Status) Final() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Reason says why a job failed. Callers see it.
type Reason string

const (
	Moderated   Reason = "moderation"     // the provider's moderation refused the prompt or the video
	Rejected    Reason = "rejected"       // the provider cannot make such a video
	Expired     Reason = "expired"        // it was not ready in time
	TooLarge    Reason = "too_large"      // the file exceeds the size limit
	Interrupted Reason = "interrupted"    // its workers died repeatedly
	Provider    Reason = "provider_error" // the provider failed
	Internal    Reason = "internal_error" // this service failed
)

// Job is one video to be made.
type Job struct {
	ID        string
	AccountID string
	KeyID     string
	Plan      account.Plan // the account's plan when the job was created
	Tier      account.Plan // the video model's tier at that time
	Request
	CostMilli int64 // cost in thousandths of a request, and of a unit

	// Repeat is a hash of the caller's Idempotency-Key, and Body is a hash of the request's body.
	// Both are nil if there was no key.
	Repeat, Body []byte

	Status   Status
	Progress int // percent
	// Reason is empty unless the job failed.
	Reason    Reason
	CreatedAt time.Time
	// StartedAt is when the job was first claimed. It is zero if it never was.
	StartedAt  time.Time
	FinishedAt time.Time
	// ExpiresAt is when an unfinished job fails, or when a finished one is deleted.
	ExpiresAt time.Time

	// Attempts counts how often the job was claimed. Node holds the claim until Until. A queued job
	// has no node and is not claimed before Until.
	Attempts int
	Node     string
	Until    time.Time

	// Renderer is the name of the engine that renders the job, or did, and Credential is what it
	// was called with. Upstream is the job's id at the vendor, or empty.
	Renderer   string
	Credential string
	Upstream   string

	// RequestSHA256 is the SHA-256 of the request that created the job, in hexadecimal digits, if the job has a receipt; else empty.
	RequestSHA256 string
	// Session is the caller's name of the run that the job belongs to, and Tags are what it is marked with; both may be empty.
	Session string
	Tags    []string

	// Budgets are what the job takes from budgets. What it has reserved of them is its own in the database, so that whoever settles the
	// job ends that. Most is the most that it may cost; nil: nothing bounds it.
	Budgets []usage.Charge
	Most    *price.Nano

	Generation string // id of the finished video; empty until then
	Size       int64  // of the file, in bytes
	SHA256     string
}

// file returns the name of the file that an attempt writes. Each attempt has its own, so that a
// worker that has lost its claim cannot overwrite the file of the next one.
func (j *Job) file(attempt int) string { return fmt.Sprintf("videos/%s-%d.mp4", j.ID, attempt) }

// File returns the name of the finished file. Only the last attempt can have finished the job.
func (j *Job) File() string { return j.file(j.Attempts) }

// finish puts the job into a final state, ends the claim, and starts the time for which the job is
// kept.
func (j *Job) finish(s Status, now time.Time, keep time.Duration) {
	j.Status, j.FinishedAt, j.ExpiresAt, j.Node, j.Until = s, now, now.Add(keep), "", time.Time{}
}

// settlement returns the settlement of a finished job. Creating the job consumed its requests for
// good. Its units are counted unless it failed or never ran (docs/accounting.md#what-costs-what). Vendors charge for the seconds
// of videos that were made.
func (j *Job) settlement(settings *Settings) *usage.Settlement {
	s := &usage.Settlement{
		ID: j.ID, At: j.CreatedAt, AccountID: j.AccountID, KeyID: j.KeyID, Plan: j.Plan.String(), Tier: j.Tier.String(), Door: usage.DoorVideos,
		ModelAsked: j.Model, ModelUsed: j.Model, Provider: j.Renderer, Status: 200, Latency: j.FinishedAt.Sub(j.CreatedAt),
		RequestMilli: j.CostMilli, UnitMilli: j.CostMilli, Terms: usage.Terms{Tags: j.Tags, Budgets: j.Budgets},
	}
	if j.Session != "" {
		s.Trace = &usage.Trace{Session: j.Session}
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
	if e := settings.engineOf(j.Credential); e != nil && j.Status == Succeeded {
		width, height, seconds := e.fit(&Task{Width: j.Width, Height: j.Height, Seconds: j.Seconds})
		s.Terms.Uses = []price.Use{{Name: price.Video(width, height), Milli: int64(seconds) * 1000}}
		s.Price(e.Price.At(s.At.Unix()), settings.Markup.Of(s.Plan, s.AccountID))
	}
	s.Receipt = j.receipt()
	return s
}

// receipt returns what the receipt of a finished job says; nil if it has none. The reply is the file.
func (j *Job) receipt() *usage.Receipt {
	r := &usage.Receipt{}
	if n, err := hex.Decode(r.Request[:], []byte(j.RequestSHA256)); err != nil || n != len(r.Request) || j.Status == Failed {
		return nil
	}
	n, err := hex.Decode(r.Reply[:], []byte(j.SHA256))
	r.Replied = err == nil && n == len(r.Reply)
	return r
}

// Load is what an account currently has.
type Load struct {
	Unfinished int       // queued or running jobs
	Bytes      int64     // total size of its stored files
	NextExpiry time.Time // when the next of them expires; zero if there are none
}

// Store is all that a Line keeps in the database; sqlstore/videos implements it. The parts stand beside the code that uses
// them.
type Store interface {
	JobStore
	QueueStore
	ExpiryStore
	SecretStore
}

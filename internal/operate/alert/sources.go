package alert

import (
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/runaway"
	"sluice/internal/video"
)

// OfAbuse returns the events that follow from one of abuse control: for the customer when the score passes a mark
// (docs/api.md#abuse-control), for the operator when support should look at the account.
func OfAbuse(e *abuse.Event) (events []Event) {
	key := fmt.Sprintf("%s %d %s %s %s %d", e.AccountID, e.At.UnixMilli(), e.Kind, e.Plan, e.Tier, e.Score)
	if mark := e.Mark(); mark > 0 {
		events = append(events, NewEvent(e.AccountID, ScoreReached, key, e.At, fmt.Sprintf("%d%% of your monthly allowance is used", e.Score), struct {
			Threshold int    `json:"threshold"`
			Score     int    `json:"score"`
			Plan      string `json:"plan"`
			Tier      string `json:"tier"`
		}{mark, e.Score, e.Plan.String(), e.Tier.String()}))
	}
	switch e.Kind {
	case abuse.Review, abuse.Inquiry, abuse.Deactivated:
		events = append(events, NewEvent("", AccountReview, key, e.At, fmt.Sprintf("Account %s needs a review: %s", e.AccountID, e.Why), struct {
			Account string     `json:"account"`
			Kind    abuse.Kind `json:"kind"`
			Score   int        `json:"score"`
			Plan    string     `json:"plan"`
			Tier    string     `json:"tier"`
			Why     string     `json:"why"`
		}{e.AccountID, e.Kind, e.Score, e.Plan.String(), e.Tier.String(), e.Why}))
	}
	return events
}

// period is the time that a budget is for.
type period struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// OfBudget returns the event of a mark that the spending of a budget has passed, for the customer.
func OfBudget(p *budget.Passed) []Event {
	scope := p.Scope
	if p.Session != "" {
		scope.Session = p.Session
	}
	var in *period
	if !p.From.IsZero() {
		in = &period{p.From.UTC(), p.Until.UTC()}
	}
	key := fmt.Sprintf("%s %d %d %d", p.Count(), p.Period, p.Percent, p.At.UnixMilli())
	return []Event{NewEvent(p.AccountID, BudgetMark, key, p.At, p.Title(), struct {
		Account string              `json:"account"`
		Budget  string              `json:"budget"`
		Name    string              `json:"name"`
		Scope   account.BudgetScope `json:"scope"`
		Percent int                 `json:"percent"`
		Amount  string              `json:"amount"`
		Spent   string              `json:"spent"`
		Hard    bool                `json:"hard"`
		Window  account.Window      `json:"window"`
		Period  *period             `json:"period"` // null for windows that roll or never end
	}{p.AccountID, p.ID, p.Name, scope, p.Percent, p.Amount.String(), p.Spent.String(), p.Hard, p.Window, in})}
}

// OfRunaway returns the event of a program that seems to run away, for the customer.
func OfRunaway(a *runaway.Alarm) []Event {
	key := fmt.Sprintf("%s %s %d %t", a.Key.ID, a.Signal, a.At.UnixMilli(), a.Paused)
	return []Event{NewEvent(a.AccountID, BudgetRunaway, key, a.At, a.Title(), struct {
		Account string         `json:"account"`
		Key     string         `json:"key"`
		Name    *string        `json:"name"` // null for the master key
		Signal  runaway.Signal `json:"signal"`
		Seen    string         `json:"seen"`
		Paused  bool           `json:"paused"`
	}{a.AccountID, a.Key.ID, a.KeyName(), a.Signal, a.Seen, a.Paused})}
}

// OfLedger returns the event of a payment that failed or was taken back, for the operator.
func OfLedger(e *billing.Entry) []Event {
	var what string
	switch e.What {
	case billing.PaymentFailed:
		what = "a payment failed"
	case billing.RenewalFailed:
		what = "a renewal failed and will be retried"
	case billing.Lapsed:
		what = "the plan has ended after the last failed renewal"
	case billing.Disputed:
		what = "a payment is disputed"
	case billing.Revoked:
		what = "the plan has ended because of a disputed payment"
	case billing.BillingStopped:
		what = "billing is stopped until staff has looked at it"
	default:
		return nil
	}
	return []Event{NewEvent("", PaymentFailed, fmt.Sprint(e.Seq), e.At, fmt.Sprintf("Account %s: %s", e.AccountID, what), struct {
		Account     string       `json:"account"`
		What        billing.What `json:"what"`
		Plan        string       `json:"plan"`
		AmountCents int64        `json:"amount_cents"`
		Payment     string       `json:"payment,omitempty"`
		Detail      string       `json:"detail,omitempty"`
	}{e.AccountID, e.What, e.Plan.String(), e.AmountCents, e.PaymentID, e.Detail})}
}

// OfVideo returns the event of a video job that has ended, for its customer. One that the customer has cancelled is
// no news.
func OfVideo(j *video.Job) []Event {
	t, title := VideoSucceeded, "Your video is ready"
	switch j.Status {
	case video.Succeeded:
	case video.Failed:
		t, title = VideoFailed, "Your video could not be created"
	default:
		return nil
	}
	// The fields are those of the job in the API, without the prompt.
	return []Event{NewEvent(j.AccountID, t, j.ID, j.FinishedAt, title, struct {
		ID            string       `json:"id"`
		Status        video.Status `json:"status"`
		FailureReason video.Reason `json:"failure_reason,omitempty"`
		Generation    string       `json:"generation_id,omitempty"`
		Model         string       `json:"model"`
		Width         int          `json:"width"`
		Height        int          `json:"height"`
		Seconds       int          `json:"n_seconds"`
		CreatedAt     int64        `json:"created_at"`
		FinishedAt    int64        `json:"finished_at"`
		ExpiresAt     int64        `json:"expires_at"`
	}{j.ID, j.Status, j.Reason, j.Generation, j.Model, j.Width, j.Height, j.Seconds, j.CreatedAt.Unix(), j.FinishedAt.Unix(), j.ExpiresAt.Unix()})}
}

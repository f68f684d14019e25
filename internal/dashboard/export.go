package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/internal/alert"
	"sluice/internal/fault"
	"sluice/internal/refusal"
	"sluice/internal/usage"
)

// export is the JSON document with all data of an account. It has no secrets: no key, password
// hash, session token or TOTP secret. Its field names are a format that customers read.
type export struct {
	MadeAt   time.Time         `json:"made_at"`
	Account  exportedAccount   `json:"account"`
	Keys     []exportedKey     `json:"keys"`
	Sessions []exportedSession `json:"sessions"`
	Passkeys []exportedPasskey `json:"passkeys"`
	Messages []exportedMessage `json:"messages"`
	Matters  []exportedMatter  `json:"conversations"`
	Events   []exportedEvent   `json:"abuse_events"`
	Changes  []exportedChange  `json:"changes"`
	Webhooks []exportedWebhook `json:"webhooks"`
	Sent     []exportedSending `json:"webhook_deliveries"`
	Invoices []exportedInvoice `json:"invoices"`
	Days     []exportedDay     `json:"usage_by_day"`
	Calls    []exportedCall    `json:"calls"`
	Refused  []exportedRefusal `json:"refused_calls"`
	// Stored has input and response of each.
	Stored []json.RawMessage `json:"stored_responses"`
}

// exportedAccount is the account itself.
type exportedAccount struct {
	ID        string    `json:"id"`
	Email     string    `json:"email"`
	Plan      string    `json:"plan"`
	Granted   bool      `json:"granted"`
	CreatedAt time.Time `json:"created_at"`
}

// exportedKey is a key without its secret part. A zero LastUsedAt is left out.
type exportedKey struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	LastFour   string    `json:"last_four"`
	CreatedAt  time.Time `json:"created_at"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
}

// exportedSession is a browser that is signed in.
type exportedSession struct {
	CreatedAt time.Time `json:"created_at"`
	SeenAt    time.Time `json:"seen_at"`
	Remote    string    `json:"remote"`
	Agent     string    `json:"agent"`
}

// exportedMessage is a message to the owner, with the owner's answer.
type exportedMessage struct {
	At         time.Time `json:"at"`
	Kind       string    `json:"kind"`
	Title      string    `json:"title"`
	Body       string    `json:"body"`
	Answer     string    `json:"answer,omitempty"`
	AnsweredAt time.Time `json:"answered_at,omitzero"`
}

// exportedMatter is a conversation with support.
type exportedMatter struct {
	OpenedAt time.Time      `json:"opened_at"`
	Kind     string         `json:"kind"`
	Subject  string         `json:"subject"`
	State    string         `json:"state"`
	Messages []exportedText `json:"messages"`
}

// exportedText is one message of a conversation.
type exportedText struct {
	At   time.Time `json:"at"`
	From string    `json:"from"`
	Text string    `json:"text"`
}

// exportedEvent is an event of abuse control.
type exportedEvent struct {
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"`
	Plan  string    `json:"plan"`
	Tier  string    `json:"tier"`
	Score int       `json:"score"`
	Why   string    `json:"why"`
}

// exportedChange is an entry of the account's audit log.
type exportedChange struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Action string    `json:"action"`
	Detail string    `json:"detail,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// exportedWebhook is a webhook without its secret.
type exportedWebhook struct {
	ID        string       `json:"id"`
	URL       string       `json:"url"`
	Events    []alert.Type `json:"events"`
	CreatedAt time.Time    `json:"created_at"`
	StoppedAt time.Time    `json:"stopped_at,omitzero"`
}

// exportedSending is what was sent to a webhook, or by mail if WebhookID is that of none.
type exportedSending struct {
	ID         string          `json:"id"`
	WebhookID  string          `json:"webhook_id"`
	At         time.Time       `json:"at"`
	State      alert.State     `json:"state"`
	Attempts   int             `json:"attempts"`
	FinishedAt time.Time       `json:"finished_at,omitzero"`
	Body       json.RawMessage `json:"body"`
}

// exportedInvoice is a paid invoice. Amounts are in cents.
type exportedInvoice struct {
	Number        int64     `json:"number"`
	PaidAt        time.Time `json:"paid_at"`
	For           string    `json:"for"`
	PeriodStart   time.Time `json:"period_start"`
	PeriodEnd     time.Time `json:"period_end"`
	AmountCents   int64     `json:"amount_cents"`
	RefundedCents int64     `json:"refunded_cents"`
}

// exportedDay sums the calls of one day, key and model. usage.Sums adds its own JSON fields.
type exportedDay struct {
	Day   string `json:"day"`
	KeyID string `json:"key_id"`
	Model string `json:"model"`
	usage.Sums
}

// exportedCall is one call. CostMicro is in millionths of a dollar, and null if the model has
// no price.
type exportedCall struct {
	ID               string    `json:"id"`
	At               time.Time `json:"at"`
	KeyID            string    `json:"key_id"`
	Door             string    `json:"door"`
	Model            string    `json:"model"`
	PromptTokens     int       `json:"prompt_tokens"`
	CompletionTokens int       `json:"completion_tokens"`
	CostMicro        *int64    `json:"cost_micro"`
	Status           int       `json:"status"`
	End              string    `json:"end"`
	LatencyMS        int64     `json:"latency_ms"`
	FirstTokenMS     int64     `json:"first_token_ms"`
}

// exportedRefusal is a call that was refused. Only the last ones are kept.
type exportedRefusal struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	KeyID   string    `json:"key_id"`
	Status  int       `json:"status"`
	Type    string    `json:"type"`
	Param   string    `json:"param,omitempty"`
	Path    string    `json:"path"`
	Model   string    `json:"model,omitempty"`
	Address string    `json:"address"`
}

// mostExported limits the length of each list, because the document is built in memory. The
// sums by day always include every call.
const mostExported = 100_000

// mostStored limits the stored responses, in bytes; the newest are exported.
const mostStored = 64 << 20

// exportAccount writes the account's data as a file to download. Everything is read before the
// first byte is written, so that a failure becomes an error page and not half a file.
func (d *Dashboard) exportAccount(w http.ResponseWriter, r *http.Request, v *visitor) error {
	out := &export{MadeAt: d.now().UTC(), Account: exportedAccount{v.ID, v.Email, v.Plan.String(), v.Granted, v.CreatedAt}}
	for i := range v.Keys {
		k := &v.Keys[i]
		out.Keys = append(out.Keys, exportedKey{k.ID, nameOf(k), k.LastFour, k.CreatedAt, k.LastUsedAt})
	}
	// One list after the other: an export is rare, and need not be fast. The page asks for one part after the other, to
	// show how far it is, and puts them together.
	parts := []func(context.Context, *visitor, *export) error{d.gatherAccount, d.gatherWebhooks, d.gatherMatters, d.gatherBilling, d.gatherUsage, d.gatherRefused}
	if text := r.FormValue("part"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= len(parts) {
			return fault.New(fault.NotFound, "There is no such part.")
		}
		parts = parts[n : n+1]
	}
	for _, gather := range parts {
		if err := gather(r.Context(), v, out); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="account.json"`)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(out) // an error means that the browser left
	return nil
}

// gatherAccount adds sessions, passkeys, messages, abuse events and the audit log.
func (d *Dashboard) gatherAccount(ctx context.Context, v *visitor, out *export) error {
	sessions, err := d.Desk.Sessions(ctx, v.ID)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		out.Sessions = append(out.Sessions, exportedSession{s.CreatedAt, s.SeenAt, s.Remote, s.Agent})
	}
	passkeys, err := d.Desk.Passkeys(ctx, v.ID)
	if err != nil {
		return err
	}
	out.Passkeys = exportPasskeys(passkeys)
	notices, err := d.Notices.List(ctx, v.ID, mostExported)
	if err != nil {
		return err
	}
	for _, n := range notices {
		out.Messages = append(out.Messages, exportedMessage{n.At, string(n.Kind), n.Title, n.Body, n.Answer, n.AnsweredAt})
	}
	events, err := d.Abuse.Events(ctx, v.ID, mostExported)
	if err != nil {
		return err
	}
	for _, e := range events {
		out.Events = append(out.Events, exportedEvent{e.At, string(e.Kind), e.Plan.String(), e.Tier.String(), e.Score, e.Why})
	}
	changes, err := d.Accounts.History(ctx, v.ID, 0, mostExported)
	if err != nil {
		return err
	}
	for _, c := range changes {
		out.Changes = append(out.Changes, exportedChange{c.At, actorText(c.Actor), c.Action, c.Detail, c.Reason})
	}
	return nil
}

// actorText returns who did something, without the names of support's people, which are their own.
func actorText(actor string) string {
	if strings.HasPrefix(actor, "staff:") {
		return "support"
	}
	return actor
}

// gatherWebhooks adds the webhooks and what was sent to them.
func (d *Dashboard) gatherWebhooks(ctx context.Context, v *visitor, out *export) error {
	hooks, _, err := d.Hooks.List(ctx, v.ID)
	if err != nil {
		return err
	}
	for _, e := range hooks {
		out.Webhooks = append(out.Webhooks, exportedWebhook{e.ID, e.To, e.Types, e.CreatedAt, e.StoppedAt})
	}
	sent, err := d.Hooks.Deliveries(ctx, v.ID, "", alert.Page{Limit: mostExported})
	if err != nil {
		return err
	}
	for _, s := range sent {
		out.Sent = append(out.Sent, exportedSending{s.ID, s.EndpointID, s.CreatedAt, s.State, s.Attempts, s.FinishedAt, json.RawMessage(s.Body)})
	}
	return nil
}

// gatherMatters adds the conversations with support.
func (d *Dashboard) gatherMatters(ctx context.Context, v *visitor, out *export) error {
	list, err := d.Matters.Threads(ctx, v.ID, mostExported)
	if err != nil {
		return err
	}
	for i := range list {
		messages, err := d.Matters.Messages(ctx, list[i].ID)
		if err != nil {
			return err
		}
		m := exportedMatter{list[i].OpenedAt, string(list[i].Kind), list[i].Subject, string(list[i].State), nil}
		for _, x := range messages {
			m.Messages = append(m.Messages, exportedText{x.At, string(x.From), x.Text})
		}
		out.Matters = append(out.Matters, m)
	}
	return nil
}

// gatherBilling adds the paid invoices.
func (d *Dashboard) gatherBilling(ctx context.Context, v *visitor, out *export) error {
	invoices, err := d.Billing.Invoices(ctx, v.ID, mostExported)
	if err != nil {
		return err
	}
	for i := range invoices {
		p := &invoices[i]
		out.Invoices = append(out.Invoices, exportedInvoice{p.Invoice, p.PaidAt, paymentText(p), p.PeriodStart, p.PeriodEnd, p.AmountCents, p.RefundedCents})
	}
	return nil
}

// gatherUsage adds the sums of all days, the most recent calls, and what is stored of them.
func (d *Dashboard) gatherUsage(ctx context.Context, v *visitor, out *export) error {
	// From the beginning: sums are kept forever.
	days, err := d.Usage.UsageByDay(ctx, v.ID, time.Unix(0, 0))
	if err != nil {
		return err
	}
	for i := range days {
		out.Days = append(out.Days, exportedDay{days[i].Start.Format(time.DateOnly), days[i].KeyID, days[i].Model, days[i].Sums})
	}
	calls, err := d.Usage.RecentSettlements(ctx, v.ID, usage.Point{At: d.now().Add(time.Minute)}, mostExported)
	if err != nil {
		return err
	}
	for i := range calls {
		c := &calls[i]
		out.Calls = append(out.Calls, exportedCall{
			c.ID, c.At, c.KeyID, c.Entrance(), c.ModelUsed, c.Tokens.PromptTotal(), c.Tokens.CompletionTotal(), c.CostMicro, c.Status, string(c.End),
			c.Latency.Milliseconds(), c.FirstToken.Milliseconds(),
		})
	}
	return d.gatherStored(ctx, v, out)
}

// gatherRefused adds the refused calls that are kept.
func (d *Dashboard) gatherRefused(ctx context.Context, v *visitor, out *export) error {
	calls, err := d.Refusals.Refusals(ctx, v.ID, refusal.Point{At: d.now().Add(time.Minute)}, refusal.Kept)
	if err != nil {
		return err
	}
	for i := range calls {
		c := &calls[i]
		out.Refused = append(out.Refused, exportedRefusal{c.Told(), c.At, c.KeyID, c.Status, c.Kind, c.Param, c.Path, c.Model, c.Address})
	}
	return nil
}

// gatherStored adds the stored responses of the calls that are exported.
func (d *Dashboard) gatherStored(ctx context.Context, v *visitor, out *export) (err error) {
	var ids []string
	for i := range out.Calls {
		if out.Calls[i].Door == usage.DoorResponses {
			ids = append(ids, out.Calls[i].ID)
		}
	}
	if d.Stored == nil || len(ids) == 0 {
		return nil
	}
	out.Stored, err = d.Stored(ctx, v.ID, ids, mostStored)
	return err
}

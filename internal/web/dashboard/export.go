package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/sharing"
	"sluice/internal/account/signin"
	"sluice/internal/api/responses"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/alert"
	"sluice/internal/operate/notice"
)

// export writes the JSON document with all data of an account: an object of lists, one entry at a time. It has no secrets:
// no key, password hash, session token or TOTP secret. Its field names are a format that customers read.
type export struct {
	file *bufio.Writer
	next string // what comes before the next field
	take responses.Take
	err  error // the first one; after it nothing is read or written
}

// field begins a field.
func (e *export) field(name string) {
	fmt.Fprintf(e.file, "%s\n  %q: ", e.next, name) // an error is returned by the last Flush
	e.next = ","
}

// put writes a field that is not a list.
func (e *export) put(name string, value any) {
	if e.err == nil {
		e.field(name)
		e.err = e.value(value, "  ")
	}
}

// fail ends the file with an error.
func (e *export) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// value writes a value at an indentation.
func (e *export) value(value any, indent string) error {
	raw, err := json.MarshalIndent(value, indent, "  ")
	if err != nil {
		return err
	}
	_, err = e.file.Write(raw)
	return err
}

// list writes a field that is a list. each calls its argument with every entry.
func (e *export) list(name string, each func(entry func(any) error) error) {
	if e.err != nil {
		return
	}
	e.field(name)
	before := "[\n    "
	e.err = each(func(value any) error {
		_, _ = e.file.WriteString(before)
		before = ",\n    "
		if raw, ok := value.([]byte); ok { // JSON already, and large
			_, err := e.file.Write(raw)
			return err
		}
		return e.value(value, "    ")
	})
	switch {
	case e.err != nil:
	case before == "[\n    ":
		_, e.err = e.file.WriteString("[]")
	default:
		_, e.err = e.file.WriteString("\n  ]")
	}
}

// exported writes a field that is a list of what read returns. of returns an entry as it is written.
func exported[T any](e *export, name string, read func() ([]T, error), of func(*T) any) {
	e.list(name, func(entry func(any) error) error {
		all, err := read()
		for i := range all {
			if err == nil {
				err = entry(of(&all[i]))
			}
		}
		return err
	})
}

// object is an entry of an export: names and values in turn, in the order in which they are written. What a name that ends
// in a question mark stands for is left out if it is empty. Customers' programs read the names.
type object []any

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	out := []byte("{")
	for pair := range slices.Chunk(o, 2) {
		name, optional := strings.CutSuffix(pair[0].(string), "?")
		if at, isTime := pair[1].(time.Time); optional && (pair[1] == "" || isTime && at.IsZero()) {
			continue
		}
		value, err := json.Marshal(pair[1])
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(strconv.AppendQuote(out, name), ':'), value...)
	}
	return append(out, '}'), nil
}

// download is a file that a visitor downloads. Until its first byte is written, an error can become a page.
type download struct {
	http.ResponseWriter
	kind, name string
	begun      bool
	err        error // of writing: the browser left
}

// Write implements io.Writer. The headers of a download are set with its first byte, and not before: until then the reply
// may still become an error page.
func (f *download) Write(p []byte) (int, error) {
	if !f.begun {
		f.begun = true
		f.Header().Set("Content-Type", f.kind)
		f.Header().Set("Content-Disposition", `attachment; filename="`+f.name+`"`)
	}
	n, err := f.ResponseWriter.Write(p)
	f.err = err
	return n, err
}

// end returns the error that becomes a page, if one can. Half a file must not look like a whole one.
func (f *download) end(err error) error {
	if err != nil && f.begun && f.err == nil {
		panic(http.ErrAbortHandler)
	}
	if f.err != nil {
		return nil
	}
	return err
}

// exportedDay sums the calls of one day, key and model. usage.Sums adds its own JSON fields, but for what calls cost the operator:
// the four that may be nil take the place of those fields and are always empty.
type exportedDay struct {
	Day   string `json:"day"`
	KeyID string `json:"key_id"`
	Model string `json:"model"`
	usage.Sums
	CostUSD json.Number `json:"cost_usd"` // what the customer is told
	Cost    *price.Nano `json:"cost_nano,omitempty"`
	Margin  *price.Nano `json:"margin_nano,omitempty"`

	SavedUSD    json.Number `json:"cache_saved_usd"`
	Saved       *price.Nano `json:"saved_nano,omitempty"`
	SavedMargin *price.Nano `json:"saved_margin_nano,omitempty"`
}

// mostExported limits the length of each list. The sums by day always include every call.
const mostExported = 100_000

// mostStored limits the stored responses, in bytes; the newest are exported.
const mostStored = 64 << 20

// exportPage is how many calls are read at a time.
const exportPage = 1000

// alone wraps a page that is an export: one of an account is made at a time.
func (d *Dashboard) alone(p page) page {
	return func(w http.ResponseWriter, r *http.Request, v *visitor) error {
		leave, err := d.Reads.Export(v.ID)
		if err != nil {
			return err
		}
		defer leave()
		return p(w, r, v)
	}
}

// exportParts write one list after the other: an export is rare, and need not be fast. The page asks for one part after the
// other, to show how far it is, and puts them together.
var exportParts = []func(*Dashboard, context.Context, *visitor, *export){
	(*Dashboard).exportSignIn, (*Dashboard).exportWebhooks, (*Dashboard).exportShares, (*Dashboard).exportTickets, (*Dashboard).exportBilling, (*Dashboard).exportUsage, (*Dashboard).exportRefused,
}

// exportAccount writes the account's data as a file to download, as it is read: it can be far larger than what may be
// held for one account.
func (d *Dashboard) exportAccount(w http.ResponseWriter, r *http.Request, v *visitor) error {
	parts := exportParts
	if text := r.FormValue("part"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= len(parts) {
			return fault.New(fault.NotFound, "There is no such part.")
		}
		parts = parts[n : n+1]
	}
	take, release := d.API().Hold(v.ID)
	defer release()
	file := &download{ResponseWriter: w, kind: "application/json", name: "account.json"}
	out := &export{file: bufio.NewWriterSize(file, 32<<10), next: "{", take: take}
	d.exportKeys(r.Context(), v, out)
	for _, part := range parts {
		part(d, r.Context(), v, out)
	}
	if out.err != nil {
		return file.end(out.err)
	}
	_, _ = out.file.WriteString("\n}\n")
	return file.end(out.file.Flush())
}

// exportKeys writes the account and its keys.
func (d *Dashboard) exportKeys(_ context.Context, v *visitor, out *export) {
	out.put("made_at", time.Now().UTC())
	out.put("account", object{"id", v.ID, "email", v.Email, "plan", v.Plan.String(), "granted", v.Granted, "show_cost", v.ShowCost, "receipts", v.Receipts, "auto_cache", v.AutoCache.String(), "created_at", v.CreatedAt})
	exported(out, "keys", func() ([]account.Key, error) { return v.Keys, nil }, func(k *account.Key) any {
		return object{"id", k.ID, "name", nameOf(k), "last_four", k.LastFour, "created_at", k.CreatedAt, "last_used_at?", k.LastUsedAt}
	})
}

// exportSignIn writes sessions, passkeys, messages, abuse events and the audit log.
func (d *Dashboard) exportSignIn(ctx context.Context, v *visitor, out *export) {
	exported(out, "sessions", func() ([]signin.Session, error) { return d.Logins.Sessions(ctx, v.ID) }, func(s *signin.Session) any {
		return object{"created_at", s.CreatedAt, "seen_at", s.SeenAt, "remote", s.Remote, "agent", s.Agent}
	})
	exported(out, "passkeys", func() ([]signin.Passkey, error) { return d.Logins.Passkeys(ctx, v.ID) }, func(p *signin.Passkey) any {
		return object{"name", p.Name, "created_at", p.CreatedAt, "last_used_at?", p.UsedAt}
	})
	exported(out, "messages", func() ([]notice.Notice, error) { return d.Notices.List(ctx, v.ID, mostExported) }, func(n *notice.Notice) any {
		return object{"at", n.At, "kind", n.Kind, "title", n.Title, "body", n.Body, "answer?", n.Answer, "answered_at?", n.AnsweredAt}
	})
	exported(out, "abuse_events", func() ([]abuse.Event, error) { return d.Abuse.Events(ctx, v.ID, mostExported) }, func(e *abuse.Event) any {
		return object{"at", e.At, "kind", e.Kind, "plan", e.Plan.String(), "tier", e.Tier.String(), "score", e.Score, "why", e.Why}
	})
	exported(out, "changes", func() ([]account.Entry, error) { return d.Accounts.History(ctx, v.ID, 0, mostExported) }, func(c *account.Entry) any {
		return object{"at", c.At, "actor", actorText(c.Actor), "action", c.Action, "detail?", c.Detail, "reason?", c.Reason}
	})
}

// actorText returns who did something, without the names of support's people, which are their own.
func actorText(actor string) string {
	if strings.HasPrefix(actor, "staff:") {
		return "support"
	}
	return actor
}

// exportWebhooks writes the webhooks and what was sent to them.
func (d *Dashboard) exportWebhooks(ctx context.Context, v *visitor, out *export) {
	hooks := func() ([]alert.Endpoint, error) {
		list, _, err := d.Hooks.List(ctx, v.ID)
		return list, err
	}
	exported(out, "webhooks", hooks, func(e *alert.Endpoint) any {
		return object{"id", e.ID, "url", e.To, "events", e.Types, "created_at", e.CreatedAt, "stopped_at?", e.StoppedAt}
	})
	sent := func() ([]alert.Delivery, error) {
		return d.Hooks.Deliveries(ctx, v.ID, "", alert.Page{Limit: mostExported})
	}
	exported(out, "webhook_deliveries", sent, func(s *alert.Delivery) any {
		return object{
			"id", s.ID, "webhook_id", s.EndpointID, "at", s.CreatedAt, "state", s.State, "attempts", s.Attempts, "finished_at?", s.FinishedAt, "body", json.RawMessage(s.Body),
		}
	})
}

// exportShares writes what is shared by a link.
func (d *Dashboard) exportShares(ctx context.Context, v *visitor, out *export) {
	out.list("shared_conversations", func(entry func(any) error) error {
		list, err := d.Shares.List(ctx, v.ID)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := out.take(sharing.MaxBody); err != nil { // one is held at a time
			return err
		}
		for i := range list {
			s := &list[i]
			chat, _, err := d.Shares.Find(ctx, s.Token)
			if err != nil {
				return err
			}
			if chat == nil { // it has expired since
				continue
			}
			if err := entry(object{"title", s.Title, "url", d.ui.Settings().Origin + sharedAt(s.Token), "created_at", s.CreatedAt, "expires_at", s.ExpiresAt, "conversation", chat}); err != nil {
				return err
			}
		}
		return out.take(-sharing.MaxBody)
	})
}

// exportTickets writes the conversations with support.
func (d *Dashboard) exportTickets(ctx context.Context, v *visitor, out *export) {
	out.list("conversations", func(entry func(any) error) error {
		list, err := d.Tickets.Threads(ctx, v.ID, mostExported)
		if err != nil {
			return err
		}
		for i := range list {
			messages, err := d.Tickets.Messages(ctx, list[i].ID)
			if err != nil {
				return err
			}
			var said []object
			for _, m := range messages {
				said = append(said, object{"at", m.At, "from", m.From, "text", m.Text})
			}
			t := &list[i]
			if err := entry(object{"opened_at", t.OpenedAt, "kind", t.Kind, "subject", t.Subject, "state", t.State, "messages", said}); err != nil {
				return err
			}
		}
		return nil
	})
}

// exportBilling writes the billing details and the paid invoices.
func (d *Dashboard) exportBilling(ctx context.Context, v *visitor, out *export) {
	details, err := d.Billing.Details(ctx, v.ID)
	if err != nil {
		out.fail(err)
		return
	}
	out.put("billing_details", details)
	exported(out, "invoices", func() ([]billing.Payment, error) { return d.Billing.Invoices(ctx, v.ID, mostExported) }, func(p *billing.Payment) any {
		return object{
			"number", p.Invoice, "paid_at", p.PaidAt, "for", paymentText(p), "period_start", p.PeriodStart, "period_end", p.PeriodEnd,
			"amount_cents", p.AmountCents, "refunded_cents", p.RefundedCents, "issued", p.Issued,
		}
	})
}

// exportUsage writes the sums of all days, the most recent calls, and what is stored of them.
func (d *Dashboard) exportUsage(ctx context.Context, v *visitor, out *export) {
	// From the beginning: sums are kept forever.
	days := func() ([]usage.Row, error) { return d.Usage.UsageByDay(ctx, v.ID, time.Unix(0, 0)) }
	exported(out, "usage_by_day", days, func(r *usage.Row) any {
		return exportedDay{Day: r.Start.Format(time.DateOnly), KeyID: r.KeyID, Model: r.Model, Sums: r.Sums, CostUSD: json.Number(r.Sums.Charge().AppendJSON(nil)), SavedUSD: json.Number(r.SavedCharge().AppendJSON(nil))}
	})
	var stored []string // the calls that may have a stored response
	out.list("calls", func(entry func(any) error) error {
		from := usage.Point{At: time.Now().Add(time.Minute)}
		for n := 0; n < mostExported; n += exportPage {
			calls, err := d.Usage.RecentSettlements(ctx, v.ID, from, exportPage)
			if err != nil {
				return err
			}
			for i := range calls {
				c := &calls[i]
				if c.Entrance() == usage.DoorResponses {
					stored = append(stored, c.ID)
				}
				// The cost is null if the price is not known.
				var cost any
				if charge := c.Charge(); charge != nil {
					cost = json.Number(charge.AppendJSON(nil))
				}
				err := entry(object{
					"id", c.ID, "at", c.At, "key_id", c.KeyID, "door", c.Entrance(), "model", c.ModelUsed,
					"prompt_tokens", c.Tokens.PromptTotal(), "completion_tokens", c.Tokens.CompletionTotal(), "cost_usd", cost, "price_version?", c.Terms.Version,
					"status", c.Status, "end", c.End, "latency_ms", c.Latency.Milliseconds(), "first_token_ms", c.FirstToken.Milliseconds(),
					"session?", c.Session(), "tags?", strings.Join(c.Terms.Tags, " "),
				})
				if err != nil {
					return err
				}
				from = usage.Point{At: c.At, ID: c.ID}
			}
			if len(calls) < exportPage {
				break
			}
		}
		return nil
	})
	// Each has input and response.
	out.list("stored_responses", func(entry func(any) error) error {
		if d.Stored == nil || len(stored) == 0 {
			return nil
		}
		return d.Stored(ctx, v.ID, stored, mostStored, out.take, func(raw []byte) error { return entry(raw) })
	})
}

// exportRefused writes the refused calls that are kept.
func (d *Dashboard) exportRefused(ctx context.Context, v *visitor, out *export) {
	calls := func() ([]refusal.Call, error) {
		return d.Refusals.Refusals(ctx, v.ID, refusal.Point{At: time.Now().Add(time.Minute)}, refusal.Kept)
	}
	exported(out, "refused_calls", calls, func(c *refusal.Call) any {
		return object{
			"id", c.Told(), "at", c.At, "key_id", c.KeyID, "status", c.Status, "type", c.Kind, "param?", c.Param, "path", c.Path, "model?", c.Model, "address", c.Address,
		}
	})
}

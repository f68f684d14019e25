package dashboard

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"sluice/internal/account"
	"sluice/internal/ledger/activity"
	"sluice/internal/operate/ticket"
	"sluice/internal/web/webui"
)

// logEntry is an entry of the account log as its owner reads it. The log itself has ids and the words of the API, which the export shows.
type logEntry struct {
	account.Entry
	// About is the name of what was changed, and Path its page. Both may be empty.
	About, Path string
	// Text is what else the entry says.
	Text string
}

// logNames are the names of what entries of the log are about.
type logNames struct {
	account *account.Account
	keys    activity.Names
	tickets map[string]*ticket.Ticket
}

// logTickets is how many conversations are looked at for their subjects.
const logTickets = 200

// logNames reads the names that entries of the log need.
func (d *Dashboard) logNames(ctx context.Context, v *visitor) (n logNames, err error) {
	n = logNames{account: v.Account, tickets: map[string]*ticket.Ticket{}}
	if n.keys, err = d.Activity.Names(ctx, v.ID); err != nil {
		return n, err
	}
	tickets, err := d.Tickets.Threads(ctx, v.ID, logTickets)
	for i := range tickets {
		n.tickets[tickets[i].ID] = &tickets[i]
	}
	return n, err
}

// entry returns an entry of the log with names. What is not in the form that the log has today is shown as it is.
func (n *logNames) entry(e *account.Entry) logEntry {
	out := logEntry{Entry: *e, Text: e.Detail}
	group, _, _ := strings.Cut(e.Action, ".")
	switch group {
	case "account", "billing":
		out.Text = planChange(e.Detail)
	case "key":
		n.key(&out)
	case "budget":
		id, name, ok := strings.Cut(e.Detail, " ")
		if name, err := strconv.Unquote(name); ok && err == nil {
			out.About, out.Text = name, ""
			if n.account.Budget(id) != nil {
				out.Path = budgetsPath + "#" + id
			}
		}
	case "matter":
		id, rest, _ := strings.Cut(e.Detail, ", ")
		if t := n.tickets[id]; t != nil {
			out.About, out.Path, out.Text = t.Subject, home+"/messages/"+id, rest
			if ticket.Kind(rest).Title() != "" {
				out.Text = "" // the subject says it
			}
		}
		if e.Reason == "answered" {
			out.Reason = ""
		}
	case "webhook":
		id, host, ok := strings.Cut(e.Detail, " at ")
		if ok {
			out.About = host
		}
		if out.Text = ""; e.Action == "webhook.create" {
			out.Path = webhooksPath + "#" + id
		}
	}
	return out
}

// key names the key of an entry. Its detail begins with the id of the key, and often with the name that it had then.
func (n *logNames) key(e *logEntry) {
	text := webui.Sentence
	end := strings.IndexAny(e.Detail, " :;,")
	if end < 0 {
		end = len(e.Detail)
	}
	id, rest := e.Detail[:end], e.Detail[end:]
	name, known := n.keys[id]
	if was, after, ok := strings.Cut(strings.TrimPrefix(rest, " ("), ")"); ok && strings.HasPrefix(rest, " (") {
		rest = after
		if e.Action == "key.rename" {
			rest = strings.Replace(was, " to ", " → ", 1)
			text = func(names string) string { return names }
		}
		name, known = cmp.Or(name, was), true
	}
	if !known {
		return
	}
	e.About, e.Text = name, text(strings.Trim(rest, " :;"))
	if k := n.account.Key(id); k != nil {
		e.Path = home + "/activity?range=30d&key=" + id
	}
}

// planChange returns "none to premium" as "No plan → Premium", and any other text as it is.
func planChange(detail string) string {
	if plan, ok := strings.CutPrefix(strings.TrimSuffix(detail, ", staff false"), "plan "); ok {
		if p, err := account.ParsePlan(plan); err == nil {
			return planName(p)
		}
		return detail
	}
	from, to, ok := strings.Cut(detail, " to ")
	was, wrongWas := account.ParsePlan(from)
	is, wrongIs := account.ParsePlan(to)
	if !ok || wrongWas != nil || wrongIs != nil {
		return detail
	}
	return planName(was) + " → " + planName(is)
}

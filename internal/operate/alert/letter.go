package alert

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"sluice/internal/account/billing"
)

// facts is the data of all types of events that are mailed. Each has some of its fields.
type facts struct {
	Message string `json:"message"` // of a test

	Provider      string `json:"provider"`
	Down, Targets int
	List          []struct{ Upstream, Key, Replica, State string }

	Node    string
	Records int64
	Lag     int64 `json:"lag_seconds"`
	Free    int64 `json:"free_bytes"`

	Account, Plan, Tier string
	Cents               int64 `json:"amount_cents"`
	Payment, Detail     string
	Score               int
	Threshold           int

	ID, Model     string
	Reason        string `json:"failure_reason"`
	Width, Height int
	Seconds       int   `json:"n_seconds"`
	Expires       int64 `json:"expires_at"`
}

// accountID is the id of an account in a title.
var accountID = regexp.MustCompile(`\bacct_\w+`)

// letterOf returns the mail of a delivery, in sentences. address returns that of an account, or "" if there is none, and origin is
// the address of this service; empty: it is not known.
func letterOf(d *Delivery, address func(accountID string) string, origin string) (subject, text string) {
	subject = accountID.ReplaceAllStringFunc(d.Title, func(id string) string {
		if email := address(id); email != "" {
			return email
		}
		return id
	})
	list := append([]string{strings.TrimSuffix(subject, ".") + "."}, sentences(d.Type, d.Body)...)
	text = strings.Join(list, "\n")
	if origin == "" || d.AccountID != "" {
		return subject, text + "\n"
	}
	page := "/support/alerts"
	switch id := accountID.FindString(d.Title); {
	case id != "":
		page = "/support/accounts/" + id
	case d.Type == UpstreamDown, d.Type == UpstreamUp:
		page = "/support/upstreams"
	}
	return subject, text + "\n\n" + origin + page + "\n"
}

// sentences say what the data of an event has beyond its title.
func sentences(t Type, body Body) (list []string) {
	var in struct{ Data facts }
	if json.Unmarshal([]byte(body), &in) != nil {
		return nil
	}
	say := func(when bool, format string, args ...any) {
		if when {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	switch f := &in.Data; t {
	case Test:
		say(f.Message != "", "%s", f.Message)
	case UpstreamDown:
		say(true, "%d of %d targets of %s do not answer. Calls go to the others, or to another provider of the model.", f.Down, f.Targets, f.Provider)
		for _, x := range f.List {
			say(true, "- %s", strings.Join(slices.DeleteFunc([]string{x.Upstream, ending(x.Key), x.Replica, x.State}, func(s string) bool { return s == "" }), ", "))
		}
	case UpstreamUp:
		say(true, "Calls go to %s again.", f.Provider)
	case JournalGrowing:
		say(true, "On the server %s, %d settlements wait for the database, the oldest for %s. Check that the database answers.", f.Node, f.Records, time.Duration(f.Lag)*time.Second)
	case JournalRecovered:
		say(true, "All settlements of the server %s are in the database.", f.Node)
	case DiskFilling:
		say(true, "The server %s has %d MiB left. Make space before it is full: then calls are refused.", f.Node, f.Free>>20)
	case DiskRecovered:
		say(true, "The server %s has %d MiB left.", f.Node, f.Free>>20)
	case PaymentFailed:
		say(f.Plan != "" && f.Plan != "none", "The plan is %s.", title(f.Plan))
		say(f.Cents != 0, "The amount is %s.", billing.Dollars(f.Cents))
		say(f.Payment != "", "The payment is %s.", f.Payment)
		say(f.Detail != "", "The reason: %s.", strings.TrimSuffix(f.Detail, "."))
	case AccountReview:
		say(true, "The abuse score is %d of 100 for models of the tier %s. The plan is %s.", f.Score, title(f.Tier), title(f.Plan))
	case ScoreReached:
		say(true, "The plan is %s, and the models are those of the tier %s.", title(f.Plan), title(f.Tier))
	case VideoSucceeded, VideoFailed:
		say(f.Reason != "", "The reason: %s.", strings.ReplaceAll(f.Reason, "_", " "))
		say(f.Model != "" && f.Width > 0, "The model %s, %d seconds of %d × %d pixels.", f.Model, f.Seconds, f.Width, f.Height)
		say(f.Expires > 0 && t == VideoSucceeded, "Download it before %s.", time.Unix(f.Expires, 0).UTC().Format("2 Jan 2006 15:04 UTC"))
		say(f.ID != "", "The job is %s.", f.ID)
	default:
		return labelled(body)
	}
	return list
}

// labelled returns the data of an event that has no sentences, as lines with a label.
func labelled(body Body) (list []string) {
	var in struct{ Data map[string]any }
	if json.Unmarshal([]byte(body), &in) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(in.Data)) {
		value := in.Data[name]
		if _, plain := value.(string); !plain {
			text, _ := json.Marshal(value) // it was decoded a moment ago
			value = string(text)
		}
		list = append(list, fmt.Sprintf("%s: %v", title(strings.ReplaceAll(name, "_", " ")), value))
	}
	return list
}

// title returns a name with a capital letter.
func title(name string) string {
	if name == "" {
		return name
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// ending says which key has the last four characters; empty: none.
func ending(four string) string {
	if four == "" {
		return ""
	}
	return "key …" + four
}

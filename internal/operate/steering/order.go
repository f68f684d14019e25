// Package steering is what staff decides about the running service: targets that get no calls, models
// that move to another tier, maintenance, and announcements.
//
// Each decision is an Order in the database, and every change of one is in the audit log. A Helm keeps
// the orders in memory on each node, follows those that other nodes are given, and answers the
// questions of the hot path (Drained, Closed) from one atomic load. What follows from an answer is up
// to the packages that ask; this one calls no upstream and renders no page.
package steering

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// Bounds of what is kept. Every node holds all orders in memory, and every request may look at them.
const (
	MaxText   = 500  // characters of a text or a reason
	MaxName   = 200  // bytes of the name of a provider, an upstream or a model
	MaxModels = 100  // models of one maintenance
	MaxOrders = 1000 // orders of one kind; of announcements and maintenance there are fewer
	MaxShown  = 20   // announcements, and as many times of maintenance
	// MaxAhead is how far ahead an order may begin or end.
	MaxAhead = 366 * 24 * time.Hour
)

// namedInBanner is how many models a banner names.
const namedInBanner = 3

// Kind says what an order is about.
type Kind string

const (
	Drain        Kind = "drain"        // a target gets no new calls
	Move         Kind = "move"         // a model has another tier than the configured one
	Maintenance  Kind = "maintenance"  // calls of some models, or of all, are answered with 503
	Announcement Kind = "announcement" // a banner on the pages
)

// Order is one decision. Which of the fields are used depends on the kind.
type Order struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	// Target is what is drained.
	Target Target `json:"target,omitzero"`
	// Model and Plan are the model that moves, and the lowest plan that may call it from then on.
	Model string `json:"model,omitempty"`
	Plan  string `json:"plan,omitempty"`
	// Models are those under maintenance; none: all.
	Models []string `json:"models,omitempty"`
	// Text is what customers read. It may be empty for maintenance.
	Text string `json:"text,omitempty"`
	// Tone is how an announcement looks: "info", "warn" or "bad".
	Tone string `json:"tone,omitempty"`
	// From is when the order takes effect. Until is when it ends; zero: when somebody ends it.
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"`
	// At, Actor and Reason say who gave the order, when and why.
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason,omitempty"`
}

// Target names what is drained: a provider, one of its models, one key, or one of its replicas. An empty field stands
// for all.
type Target struct {
	Provider string `json:"provider"`
	Upstream string `json:"upstream,omitempty"` // the provider's name for the model
	Key      string `json:"key,omitempty"`      // the last four characters of the key, with an ellipsis before them or without
	Replica  string `json:"replica,omitempty"`  // host and port of one of its servers
}

// String returns the target as people write it.
func (t Target) String() string {
	s := t.Provider
	if t.Upstream != "" {
		s += "/" + t.Upstream
	}
	if t.Key != "" {
		s += " with the key …" + strings.TrimPrefix(t.Key, "…")
	}
	if t.Replica != "" {
		s += " at " + t.Replica
	}
	return s
}

// Covers reports whether one call's target is part of t. The key may be named with an ellipsis before it or without, as in t.
func (t *Target) Covers(provider, upstream, key, replica string) bool {
	return t.Provider == provider && (t.Upstream == "" || t.Upstream == upstream) && (t.Key == "" || strings.TrimPrefix(key, "…") == strings.TrimPrefix(t.Key, "…")) &&
		(t.Replica == "" || t.Replica == replica)
}

// Holds reports whether the order is in force.
func (o *Order) Holds(now time.Time) bool {
	return !now.Before(o.From) && !o.Over(now)
}

// Over reports whether the order has ended by itself.
func (o *Order) Over(now time.Time) bool { return !o.Until.IsZero() && !now.Before(o.Until) }

// closes reports whether a maintenance concerns the model.
func (o *Order) closes(model string) bool {
	return len(o.Models) == 0 || slices.Contains(o.Models, model)
}

// same reports whether two orders are about the same thing, so that the newer one replaces the other.
func (o *Order) same(other *Order) bool {
	return o.Kind == other.Kind && (o.Kind == Drain && o.Target == other.Target || o.Kind == Move && o.Model == other.Model)
}

// Banner returns what pages show of an announcement or of maintenance.
func (o *Order) Banner() string {
	if o.Kind != Maintenance {
		return o.Text
	}
	s := "Maintenance: all models are unavailable"
	if n := len(o.Models); n == 1 {
		s = "Maintenance: " + o.Models[0] + " is unavailable"
	} else if n > 1 {
		s = "Maintenance: " + strings.Join(o.Models[:min(n, namedInBanner)], ", ")
		if n > namedInBanner {
			s += fmt.Sprintf(" and %d more", n-namedInBanner)
		}
		s += " are unavailable"
	}
	if !o.Until.IsZero() {
		s += " until " + o.Until.UTC().Format("2 Jan 2006 15:04 UTC")
	}
	s += "."
	if o.Text != "" {
		s += " " + o.Text
	}
	return s
}

// BannerTone returns how the banner looks: "info", "warn" or "bad".
func (o *Order) BannerTone() string {
	if o.Kind == Maintenance {
		return "warn"
	}
	return o.Tone
}

// check returns what is wrong with a new order. It fills in what was left out.
func (o *Order) check(now time.Time) error {
	o.Text, o.Reason = strings.TrimSpace(o.Text), strings.TrimSpace(o.Reason)
	if o.From.IsZero() {
		o.From = now
	}
	switch {
	case strings.ContainsFunc(o.Text+o.Reason, unicode.IsControl):
		return fault.New(fault.Invalid, "a text or reason is one line of plain text").At("text")
	case utf8.RuneCountInString(o.Text) > MaxText:
		return fault.New(fault.Invalid, "the text has %d characters, and the limit is %d", utf8.RuneCountInString(o.Text), MaxText).At("text")
	case utf8.RuneCountInString(o.Reason) > MaxText:
		return fault.New(fault.Invalid, "the reason has %d characters, and the limit is %d", utf8.RuneCountInString(o.Reason), MaxText).At("reason")
	case o.Kind != Announcement && o.Reason == "":
		return fault.New(fault.Invalid, "a reason is needed").At("reason")
	case o.From.After(now.Add(MaxAhead)):
		return fault.New(fault.Invalid, "the beginning is more than a year ahead").At("from")
	case !o.Until.IsZero() && !o.Until.After(o.From):
		return fault.New(fault.Invalid, "the end must be after the beginning and in the future").At("until")
	case o.Over(now):
		return fault.New(fault.Invalid, "the end is in the past").At("until")
	case o.Until.After(now.Add(MaxAhead)):
		return fault.New(fault.Invalid, "the end is more than a year ahead").At("until")
	}
	return o.checkKind()
}

// checkKind is the part of check that depends on the kind.
func (o *Order) checkKind() error {
	switch o.Kind {
	case Drain:
		if o.Target.Provider == "" {
			return fault.New(fault.Invalid, "no provider was named").At("provider")
		}
		return short("provider", o.Target.Provider, o.Target.Upstream, o.Target.Key, o.Target.Replica)
	case Move:
		plan, err := account.ParsePlan(o.Plan)
		if err != nil || plan < account.Free || plan > account.Premium {
			return fault.New(fault.Invalid, "%q is not a tier; use free, basic or premium", o.Plan).At("plan")
		}
		if !o.Until.IsZero() {
			return fault.New(fault.Invalid, "a move has no end; move the model back when it is time").At("until")
		}
		return short("model", o.Model)
	case Maintenance:
		if len(o.Models) > MaxModels {
			return fault.New(fault.Invalid, "%d models were named, and the limit is %d; name none for all models", len(o.Models), MaxModels).At("models")
		}
		return short("models", o.Models...)
	case Announcement:
		if o.Tone == "" {
			o.Tone = "info"
		}
		if !slices.Contains([]string{"info", "warn", "bad"}, o.Tone) {
			return fault.New(fault.Invalid, "%q is not a tone; use info, warn or bad", o.Tone).At("tone")
		}
		if o.Text == "" {
			return fault.New(fault.Invalid, "an announcement needs a text").At("text")
		}
		return nil
	}
	return fault.New(fault.Invalid, "%q is not a kind of order", o.Kind).At("kind")
}

// short returns an error if a name cannot be one.
func short(param string, names ...string) error {
	for _, n := range names {
		if len(n) > MaxName || strings.ContainsFunc(n, unicode.IsControl) {
			return fault.New(fault.Invalid, "a name is one line of at most %d bytes", MaxName).At(param)
		}
	}
	return nil
}

// most returns how many orders of a kind there may be.
func (k Kind) most() int {
	if k == Announcement || k == Maintenance {
		return MaxShown
	}
	return MaxOrders
}

// actions are the names of an order and of its end in the audit log.
var actions = map[Kind][2]string{
	Drain:        {"upstream.drain", "upstream.enable"},
	Move:         {"model.move", "model.move-back"},
	Maintenance:  {"maintenance.start", "maintenance.end"},
	Announcement: {"announcement.post", "announcement.end"},
}

// moment is how the audit log writes a time: people read it.
const moment = "2 Jan 2006 15:04 UTC"

// detail says in the audit log what the order is about.
func (o *Order) detail() string {
	var s string
	switch o.Kind {
	case Drain:
		s = o.Target.String()
	case Move:
		s = o.Model + " to " + o.Plan
	case Maintenance:
		s = "all models"
		if len(o.Models) > 0 {
			s = strings.Join(o.Models, ", ")
		}
		if o.Text != "" {
			s += ": " + o.Text
		}
	case Announcement:
		s = o.Text
	}
	var when []string
	if o.From.After(o.At) {
		when = append(when, "from "+o.From.UTC().Format(moment))
	}
	if !o.Until.IsZero() {
		when = append(when, "until "+o.Until.UTC().Format(moment))
	}
	if len(when) > 0 {
		s += " (" + strings.Join(when, " ") + ")"
	}
	return s
}

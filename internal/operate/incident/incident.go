// Package incident is what staff tells people about outages and planned work: on the status page, in its feeds, and
// to those who subscribe.
//
// An Incident has updates, each with a status and a text. It is one row of the database, and every change of one is in
// the audit log. A Bulletin changes incidents, and keeps those of now in memory on each node. What is sent about a change
// is stored together with it, as an event that package alert delivers.
//
// An incident changes nothing about the service. What refuses calls is maintenance, in package steering.
package incident

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/internal/kit/fault"
)

// Bounds of what is kept. Every node holds the incidents of now in memory.
const (
	MaxTitle      = 120  // characters
	MaxText       = 2000 // characters of an update
	MaxPostmortem = 8000 // characters
	MaxUpdates    = 50   // of one incident
	MaxModels     = 100  // that an incident names
	MaxName       = 200  // bytes of the id of a model
	MaxOpen       = 50   // incidents that have not ended
	// MaxAhead is how far ahead planned work may begin or end, and MaxBehind how long ago an incident may have begun.
	MaxAhead  = 366 * 24 * time.Hour
	MaxBehind = 366 * 24 * time.Hour
)

// Kind tells outages from planned work.
type Kind string

const (
	Outage      Kind = "incident"
	Maintenance Kind = "maintenance"
)

// Severity says how bad an outage is.
type Severity string

const (
	Minor    Severity = "minor"    // slow, or some calls fail
	Major    Severity = "major"    // many calls fail
	Critical Severity = "critical" // most calls fail
)

// Severities returns all severities, the least one first.
func Severities() []Severity { return []Severity{Minor, Major, Critical} }

// Status is how far an incident has come.
type Status string

const (
	Investigating Status = "investigating"
	Identified    Status = "identified"
	Monitoring    Status = "monitoring"
	Resolved      Status = "resolved"

	// Planned work becomes InProgress and Completed by itself, at the times that it was planned for.
	Scheduled  Status = "scheduled"
	InProgress Status = "in_progress"
	Completed  Status = "completed"
)

// Statuses returns the statuses of a kind in their usual order.
func Statuses(k Kind) []Status {
	if k == Maintenance {
		return []Status{Scheduled, InProgress, Completed}
	}
	return []Status{Investigating, Identified, Monitoring, Resolved}
}

// Words returns the status for people, such as "In progress".
func (s Status) Words() string {
	if s == "" {
		return ""
	}
	text := strings.ReplaceAll(string(s), "_", " ")
	return strings.ToUpper(text[:1]) + text[1:]
}

// ends reports whether the status is the last one.
func (s Status) ends() bool { return s == Resolved || s == Completed }

// Component is a part of the service beside its models.
type Component string

const (
	API       Component = "api"
	Videos    Component = "videos"
	Dashboard Component = "dashboard"
)

// Components returns all components, in the order of the status page.
func Components() []Component { return []Component{API, Videos, Dashboard} }

// Words returns the component for people.
func (c Component) Words() string {
	switch c {
	case API:
		return "API"
	case Videos:
		return "Videos"
	}
	return "Dashboard"
}

// Incident is an outage or planned work, and what staff has written about it.
type Incident struct {
	ID    string `json:"id"`
	Kind  Kind   `json:"kind"`
	Title string `json:"title"`
	// Severity is empty for maintenance.
	Severity Severity `json:"severity,omitempty"`
	// Status is that of the last update; At says what it is now.
	Status Status `json:"status"`
	// Components and Models are what is affected. If both are empty, that is not known or not said.
	Components []Component `json:"components"`
	Models     []string    `json:"models"`
	// From is when it began or is to begin. Until is when it ended or, if it is planned, is to end; zero: not known.
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"`
	// Postmortem is a text or a link that says what happened and what follows from it.
	Postmortem string    `json:"postmortem,omitempty"`
	Updates    []Update  `json:"updates"` // oldest first, at least one
	ChangedAt  time.Time `json:"changed_at"`
}

// Update is one text about an incident.
type Update struct {
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	Status   Status    `json:"status"`
	Text     string    `json:"text"`
	Actor    string    `json:"actor"` // who has written it; only staff sees it
	EditedAt time.Time `json:"edited_at,omitzero"`
}

// At returns the status at a time. Planned work follows the clock.
func (i *Incident) At(now time.Time) Status {
	switch {
	case i.Kind != Maintenance || i.Status == Completed:
		return i.Status
	case !i.Until.IsZero() && !now.Before(i.Until):
		return Completed
	case !now.Before(i.From):
		return InProgress
	}
	return Scheduled
}

// Over reports whether it has ended.
func (i *Incident) Over(now time.Time) bool { return i.At(now).ends() }

// Running reports whether it has begun and not ended.
func (i *Incident) Running(now time.Time) bool { return !now.Before(i.From) && !i.Over(now) }

// Tone returns how it looks: "info", "warn" or "bad", or "good" when it is over.
func (i *Incident) Tone(now time.Time) string {
	switch {
	case i.Over(now):
		return "good"
	case i.Kind == Maintenance:
		return "info"
	case i.Severity == Minor:
		return "warn"
	}
	return "bad"
}

// Affected returns what is affected in words, such as "API, lab/small", or "".
func (i *Incident) Affected() string {
	var parts []string
	for _, c := range i.Components {
		parts = append(parts, c.Words())
	}
	return strings.Join(append(parts, i.Models...), ", ")
}

// Banner returns the line that pages show while it lasts.
func (i *Incident) Banner(now time.Time) string { return i.At(now).Words() + ": " + i.Title }

// Path returns the path of its page.
func (i *Incident) Path() string { return "/status/incidents/" + i.ID }

// Latest returns the last update.
func (i *Incident) Latest() *Update { return &i.Updates[len(i.Updates)-1] }

// clone returns a copy whose lists can be changed.
func (i *Incident) clone() *Incident {
	c := *i
	c.Components, c.Models, c.Updates = slices.Clone(i.Components), slices.Clone(i.Models), slices.Clone(i.Updates)
	return &c
}

// check returns what is wrong with an incident. It fills in what was left out.
func (i *Incident) check(now time.Time) error {
	i.Title, i.Postmortem = strings.TrimSpace(i.Title), plain(i.Postmortem)
	i.From, i.Until = i.From.UTC().Truncate(time.Millisecond), i.Until.UTC().Truncate(time.Millisecond)
	if i.Components == nil {
		i.Components = []Component{}
	}
	if i.Models == nil {
		i.Models = []string{}
	}
	switch {
	case i.Title == "":
		return fault.New(fault.Invalid, "a title is needed").At("title")
	case utf8.RuneCountInString(i.Title) > MaxTitle:
		return fault.New(fault.Invalid, "the title has %d characters, and the limit is %d", utf8.RuneCountInString(i.Title), MaxTitle).At("title")
	case strings.ContainsFunc(i.Title, unicode.IsControl):
		return fault.New(fault.Invalid, "a title is one line of plain text").At("title")
	case utf8.RuneCountInString(i.Postmortem) > MaxPostmortem:
		return fault.New(fault.Invalid, "the postmortem has %d characters, and the limit is %d", utf8.RuneCountInString(i.Postmortem), MaxPostmortem).At("postmortem")
	case len(i.Models) > MaxModels:
		return fault.New(fault.Invalid, "%d models were named, and the limit is %d", len(i.Models), MaxModels).At("models")
	case slices.ContainsFunc(i.Models, func(m string) bool { return m == "" || len(m) > MaxName || strings.ContainsFunc(m, unicode.IsControl) }):
		return fault.New(fault.Invalid, "the id of a model is one line of at most %d bytes", MaxName).At("models")
	}
	for _, c := range i.Components {
		if !slices.Contains(Components(), c) {
			return fault.New(fault.Invalid, "%q is not a component; use api, videos or dashboard", c).At("components")
		}
	}
	if err := i.checkKind(); err != nil {
		return err
	}
	return i.checkTimes(now)
}

// checkKind is the part of check that depends on the kind.
func (i *Incident) checkKind() error {
	switch i.Kind {
	case Outage:
		if !slices.Contains(Severities(), i.Severity) {
			return fault.New(fault.Invalid, "%q is not a severity; use minor, major or critical", i.Severity).At("severity")
		}
	case Maintenance:
		if i.Severity != "" {
			return fault.New(fault.Invalid, "planned work has no severity").At("severity")
		}
	default:
		return fault.New(fault.Invalid, "%q is not a kind; use incident or maintenance", i.Kind).At("kind")
	}
	return nil
}

// checkTimes is the part of check about times.
func (i *Incident) checkTimes(now time.Time) error {
	switch {
	case i.From.Before(now.Add(-MaxBehind)):
		return fault.New(fault.Invalid, "the beginning is more than a year ago").At("from")
	case i.Kind == Outage && i.From.After(now):
		return fault.New(fault.Invalid, "an incident cannot begin in the future; plan maintenance instead").At("from")
	case i.From.After(now.Add(MaxAhead)):
		return fault.New(fault.Invalid, "the beginning is more than a year ahead").At("from")
	case i.Until.IsZero() && i.Status.ends():
		return fault.New(fault.Invalid, "what is over has an end").At("until")
	case i.Until.IsZero():
		return nil
	case !i.Until.After(i.From):
		return fault.New(fault.Invalid, "the end is not after the beginning").At("until")
	case i.Kind == Outage && !i.Status.ends():
		return fault.New(fault.Invalid, "an incident ends when it is resolved").At("until")
	case i.Kind == Outage && i.Until.After(now):
		return fault.New(fault.Invalid, "the end is in the future").At("until")
	case i.Until.After(now.Add(MaxAhead)):
		return fault.New(fault.Invalid, "the end is more than a year ahead").At("until")
	}
	return nil
}

// checkText returns what is wrong with the text of an update.
func checkText(text string) error {
	switch {
	case text == "":
		return fault.New(fault.Invalid, "a text is needed").At("text")
	case utf8.RuneCountInString(text) > MaxText:
		return fault.New(fault.Invalid, "the text has %d characters, and the limit is %d", utf8.RuneCountInString(text), MaxText).At("text")
	}
	return nil
}

// plain returns a text without spaces around it, with \n as its line break, and without other control characters.
func plain(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", " ").Replace(text)
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, text))
}

// detail says in the audit log what an incident is about.
func (i *Incident) detail() string { return fmt.Sprintf("%s: %s (%s)", i.ID, i.Title, i.Status) }

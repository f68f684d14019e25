package dashboard

import (
	"strconv"
	"strings"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/web/webui"
)

// timeline is where the time of a request went, as a picture and in words.
type timeline struct {
	Whole  time.Duration
	First  time.Duration // until the first token; 0: there was none
	Stages []stage
}

// stage is one stretch of a timeline.
type stage struct {
	Name, Note string
	Tone       string // the colour: "wait", "good", "bad" or "reply"
	From, To   time.Duration
	Moment     bool // it has no duration worth telling
}

// timelineOf returns the timeline of a request. What is known are the attempts, each until its first content or its failure, and the
// time of the whole request; the rest lies between them.
func timelineOf(s *usage.Settlement) *timeline {
	t := &timeline{Whole: max(s.Latency, time.Millisecond)}
	if s.HasFirst() {
		t.First = s.FirstToken
	}
	add := func(name, note, tone string, from, to time.Duration) {
		t.Whole = max(t.Whole, to)
		t.Stages = append(t.Stages, stage{name, note, tone, from, to, from == to})
	}
	defer func() { add("Settled", settledNote(s), "wait", t.Whole, t.Whole) }()
	if s.Trace == nil || len(s.Trace.Attempts) == 0 {
		if t.First > 0 && t.First < s.Latency {
			add("Until the first token", "", "wait", 0, t.First)
			add("Reply", "", "reply", t.First, s.Latency)
		} else {
			add("Whole request", "", "wait", 0, t.Whole)
		}
		return t
	}
	list := s.Trace.Attempts
	add("Admission and routing", "limits, budgets and the choice of the model", "wait", 0, list[0].Start)
	for i := range list {
		a := &list[i]
		note := a.Outcome
		if a.Status != 0 {
			note += " " + strconv.Itoa(a.Status)
		}
		add(a.Model+" at "+a.Provider, note, attemptTone(a), a.Start, a.End)
		next := s.Latency
		if i+1 < len(list) {
			next = list[i+1].Start
		}
		// After a failure the next attempt begins at once. After an answer there is the reply, and in a conversation with tools what
		// they take.
		if a.Outcome == usage.Answered && next > a.End {
			if i+1 < len(list) {
				add("Reply and tools", "", "reply", a.End, next)
			} else {
				add("Reply", "", "reply", a.End, next)
			}
		}
	}
	return t
}

// took returns how long the whole request took. Latencies are stored in whole milliseconds, and attempts are finer, so the drawing
// knows better; the shortest drawing is of a millisecond.
func (t *timeline) took(latency time.Duration) time.Duration {
	if latency <= 0 && t.Whole == time.Millisecond {
		return 0
	}
	return t.Whole
}

// settledNote says what was counted in the end.
func settledNote(s *usage.Settlement) string {
	note := webui.Thousandths(s.UnitMilli) + " units"
	if s.UnitMilli == 1000 {
		note = "1 unit"
	}
	if s.MCPCalls > 0 {
		note += ", " + strconv.Itoa(s.MCPCalls) + " tool calls"
	}
	if s.Cost != nil {
		note += ", " + webui.Dollars(*s.Charge())
	}
	return note
}

// took says how long a stage took, or when it was.
func (s *stage) took() string {
	if s.Moment {
		return "after " + webui.Duration(s.From)
	}
	return webui.Duration(s.To - s.From)
}

// Heights of a timeline, in pixels: above the first stage, of a stage, of the bar at its end, and below the last.
const timelineTop, stageHeight, barHeight, timelineEnd = 22, 40, 10, 20

// height returns that of the picture, and end where the first token is named.
func (t *timeline) height() string {
	return strconv.Itoa(timelineTop + stageHeight*len(t.Stages) + timelineEnd)
}

func (t *timeline) end() string { return strconv.Itoa(timelineTop + stageHeight*len(t.Stages) + 12) }

// anchor returns on which side of the first token its name stands, so that there is room for it.
func (t *timeline) anchor() string {
	if t.First > t.Whole/2 {
		return "end"
	}
	return "start"
}

// shift keeps that name off the line.
func (t *timeline) shift() string {
	if t.anchor() == "end" {
		return "-6"
	}
	return "6"
}

// y returns where stage i is: its text, and its bar.
func (t *timeline) y(i int) (text, bar string) {
	top := timelineTop + stageHeight*i
	return strconv.Itoa(top + 16), strconv.Itoa(top + stageHeight - barHeight - 4)
}

// x returns a place in the time of the request.
func (t *timeline) x(at time.Duration) string {
	return strconv.FormatFloat(100*float64(at)/float64(t.Whole), 'f', 2, 64) + "%"
}

// width returns that of a stage. The shortest can still be seen.
func (t *timeline) width(s *stage) string {
	return strconv.FormatFloat(max(0.6, 100*float64(s.To-s.From)/float64(t.Whole)), 'f', 2, 64) + "%"
}

// left returns where the bar of a stage begins, so that the shortest is not beyond the end.
func (t *timeline) left(s *stage) string {
	return strconv.FormatFloat(min(99.4, 100*float64(s.From)/float64(t.Whole)), 'f', 2, 64) + "%"
}

// text returns the timeline in words, for those who cannot see it.
func (t *timeline) text() string {
	list := make([]string, len(t.Stages))
	for i := range t.Stages {
		list[i] = t.Stages[i].text()
	}
	return strings.Join(list, ". ") + "."
}

// text returns a stage in words.
func (s *stage) text() string {
	text := s.Name
	if s.Note != "" {
		text += " (" + s.Note + ")"
	}
	if s.Moment {
		return text + " " + s.took()
	}
	return text + ": " + s.took() + ", from " + webui.Duration(s.From) + " on"
}

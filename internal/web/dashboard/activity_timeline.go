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
		t.Stages = append(t.Stages, stage{name, note, tone, from, to})
	}
	if s.Trace == nil || len(s.Trace.Attempts) == 0 {
		if t.First > 0 && t.First < s.Latency {
			add("Until the first token", "", "wait", 0, t.First)
			add("Reply", "", "reply", t.First, s.Latency)
		} else {
			add("Whole request", "", "wait", 0, s.Latency)
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
			switch {
			case i+1 < len(list):
				add("Reply and tools", "", "reply", a.End, next)
			default:
				add("Reply", "", "reply", a.End, next)
			}
		}
	}
	return t
}

// Heights of a timeline, in pixels: above the first stage, of a stage, and of the bar at its end.
const timelineTop, stageHeight, barHeight = 22, 40, 10

// height returns that of the picture.
func (t *timeline) height() string { return strconv.Itoa(timelineTop + stageHeight*len(t.Stages)) }

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
		s := &t.Stages[i]
		list[i] = s.Name
		if s.Note != "" {
			list[i] += " (" + s.Note + ")"
		}
		list[i] += ": " + webui.Millis((s.To - s.From).Milliseconds()) + " from " + webui.Millis(s.From.Milliseconds()) + " on"
	}
	return strings.Join(list, ". ") + ". Settled after " + webui.Millis(t.Whole.Milliseconds()) + "."
}

// Package runaway notices programs that run away, tells the owners of their keys, and pauses these keys if their owners want that.
//
// Each server counts the calls that end on it, in memory and within bounds: how often a prompt comes again, how a conversation grows, and
// what a key spends. The first two are judged there. What a key spends is judged by what all servers have stored, once the server's own
// count says that it is worth a question to the database. What was seen reaches Look, which tells and pauses; nothing here waits for it.
//
// A signal needs money: calls that cost less than Floor an hour, or whose price is not known, are never one. So whoever asks the same
// every half minute whether a service is well is left alone.
//
// What is refused to a paused key is not decided here; see packages account and budget.
package runaway

import (
	"fmt"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
)

// Signal is a way to run away. Its values are stored and sent; do not change them.
type Signal string

const (
	SamePrompt     Signal = "same_prompt"
	GrowingContext Signal = "growing_context"
	SpendRate      Signal = "spend_rate"
)

const (
	// span is the time that every signal looks at. What is seen in it is told as what an hour of it would cost, which is perHour times
	// as much.
	span    = 10 * time.Minute
	perHour = int64(time.Hour / span)

	// Floor is what calls must cost in an hour to be a signal.
	Floor = price.Nano(1_000_000_000)
	// Newcomer is what the busiest hour counts as of a key whose account has no calls that are older than newcomer: an agent at work
	// costs up to that, so only far more is unusual.
	Newcomer = price.Nano(10_000_000_000)
	newcomer = 24 * time.Hour
	// past is how far back the busiest hour is looked for.
	past = 7 * 24 * time.Hour

	// sameTimes is how often a prompt must come in the span.
	sameTimes = 20

	// growing is how many calls of a conversation in a row must each have a longer prompt than the one before, within the span.
	growing = 30
	// evenly is how many of their steps must be about as long as the middle one: within a tenth of it, or within evenTokens. An agent at
	// work grows as well, and as fast; but it reads a file here and a test's output there, so its steps differ by far. A program that
	// appends the same again, or an agent that gets the same error again, takes even steps.
	evenly     = (growing - 1) * 4 / 5
	evenTokens = 16
	// longPrompt is how long the last prompt must be, or three quarters of what the model reads: a context that is about to cost most.
	longPrompt = 100_000
)

// Alarm is a signal of which the owner of a key is told.
type Alarm struct {
	AccountID string
	Key       account.Key
	Signal    Signal
	Seen      string // in a sentence, without any text of a caller
	At        time.Time
	Paused    bool // the key is paused
}

// KeyName returns the name of the key; nil for the master key, which has none.
func (a *Alarm) KeyName() *string {
	if a.Key.Master {
		return nil
	}
	return &a.Key.Name
}

// Title says what happened, in one line.
func (a *Alarm) Title() string {
	name := "The key " + fmt.Sprintf("%q", a.Key.Name)
	if a.Key.Master {
		name = "The master key"
	}
	if a.Paused {
		return name + " is paused: its program may have run away"
	}
	return name + " may have a runaway program"
}

// hourly returns what calls cost in an hour that cost so much in a span.
func hourly(inSpan price.Nano) price.Nano { return inSpan * price.Nano(perHour) }

// repeats returns what is seen of a prompt that came so often; empty: it is no signal.
func repeats(f figures, model string) string {
	if f.calls < sameTimes || hourly(f.cost) < Floor {
		return ""
	}
	return fmt.Sprintf("The same prompt was sent %d times within %d minutes to the model %s. These calls cost %s.", f.calls, span/time.Minute, model, price.Dollars(f.cost))
}

// step is a call of a conversation.
type step struct {
	at     int64 // Unix milliseconds
	cost   price.Nano
	tokens int32 // of its prompt
}

// grows returns what is seen of the last calls of a conversation, the oldest first, at a model that reads window tokens; empty: it is no
// signal. It sorts in room.
func grows(steps *[growing]step, window int, model string, room *[growing - 1]int32) string {
	first, last := &steps[0], &steps[growing-1]
	if last.at-first.at > span.Milliseconds() || last.tokens < longPrompt && (window <= 0 || int(last.tokens) < window/4*3) {
		return ""
	}
	cost := first.cost
	for i := 1; i < growing; i++ {
		if room[i-1] = steps[i].tokens - steps[i-1].tokens; room[i-1] <= 0 {
			return ""
		}
		cost += steps[i].cost
	}
	if hourly(cost) < Floor {
		return ""
	}
	slices.Sort(room[:])
	middle := room[len(room)/2]
	even, near := 0, max(evenTokens, middle/10)
	for _, by := range room {
		if by >= middle-near && by <= middle+near {
			even++
		}
	}
	if even < evenly {
		return ""
	}
	return fmt.Sprintf("A conversation grew by about %d tokens with each of its last %d calls, to a prompt of %d tokens at the model %s. These calls took %s and cost %s.",
		middle, growing, last.tokens, model, time.Duration(max(1000, last.at-first.at)*1e6).Round(time.Second), price.Dollars(cost))
}

// Past is what a key, or all keys of an account, have spent in whole hours of the last week.
type Past struct {
	Busiest price.Nano // in an hour
	First   time.Time  // when the first of these hours began; zero: there is none
}

// usual returns what the busiest hour of a key counts as. A key that is new in its account is compared with the account.
func usual(key, all Past, now time.Time) price.Nano {
	old := func(p *Past) bool { return !p.First.IsZero() && now.Sub(p.First) >= newcomer }
	switch {
	case old(&key):
		return key.Busiest
	case old(&all):
		return max(key.Busiest, all.Busiest)
	}
	return max(key.Busiest, all.Busiest, Newcomer)
}

// bar returns what a key must spend in an hour to be a signal.
func bar(busiest price.Nano, times int) price.Nano { return max(Floor, busiest*price.Nano(times)) }

// spends returns what is seen of a key that has spent so much in the span; empty: it is no signal.
func spends(spent, busiest price.Nano, times int) string {
	if hourly(spent) <= bar(busiest, times) {
		return ""
	}
	text := fmt.Sprintf("The key spent %s within %d minutes, which is %s an hour.", price.Dollars(spent), span/time.Minute, price.Dollars(hourly(spent)))
	if busiest < Floor {
		return text + fmt.Sprintf(" In the busiest hour of the last seven days it was %s.", price.Dollars(busiest))
	}
	return text + fmt.Sprintf(" That is %.1f times what counts as its busiest hour of the last seven days, %s.", float64(hourly(spent))/float64(busiest), price.Dollars(busiest))
}

// Record is what an account wants done about programs that run away, and which keys are paused, as the API, the admin API and the
// command line show it.
type Record struct {
	Object    string            `json:"object"` // "budget.watch"
	OnRunaway account.OnRunaway `json:"on_runaway"`
	Factor    int               `json:"factor"`
	Paused    []Paused          `json:"paused"`
}

// Paused is a key that is paused.
type Paused struct {
	Key      string    `json:"key"`
	Name     *string   `json:"name"` // nil for the master key
	PausedAt time.Time `json:"paused_at"`
	Signal   Signal    `json:"signal"`
	Seen     string    `json:"seen"`
}

// RecordOf returns the record of an account.
func RecordOf(a *account.Account) Record {
	r := Record{Object: "budget.watch", OnRunaway: a.Runaway.Action(), Factor: a.Runaway.Times(), Paused: []Paused{}}
	for i := range a.Runaway.Paused {
		p := &a.Runaway.Paused[i]
		if k := a.Key(p.KeyID); k != nil {
			alarm := Alarm{Key: *k}
			r.Paused = append(r.Paused, Paused{k.ID, alarm.KeyName(), p.At, Signal(p.Signal), p.Seen})
		}
	}
	return r
}

package account

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

// OnRunaway is what is done about a key whose program seems to run away (docs/teams/budgets.md#the-runaway-watch).
type OnRunaway string

const (
	Alert OnRunaway = "alert" // its owner is told
	Pause OnRunaway = "pause" // and calls of the key are refused until somebody resumes it
	Off   OnRunaway = "off"   // nobody looks
)

const (
	// UsualFactor is by which factor a key must spend more than in the busiest hour of the last week, unless its owner chooses another one.
	UsualFactor = 5
	// The smallest and the largest factor.
	leastFactor, mostFactor = 2, 1000
	// maxSeen is how long the reason of a pause may be, in bytes.
	maxSeen = 500
)

// Runaway is what an account wants done about programs that run away, and what was done. The zero value is what every account has that
// has chosen nothing. Requests read it without a lock, so it is never changed in place.
type Runaway struct {
	On     OnRunaway `json:"on,omitempty"`     // empty: Alert
	Factor int       `json:"factor,omitempty"` // 0: UsualFactor
	// Paused are the keys whose calls are refused, and Resumed when others were resumed. Keys that are gone are left out by the next
	// change.
	Paused  []PausedKey  `json:"paused,omitempty"`
	Resumed []ResumedKey `json:"resumed,omitempty"`
}

// PausedKey is a key whose calls are refused.
type PausedKey struct {
	KeyID  string    `json:"key"`
	At     time.Time `json:"at"`
	Signal string    `json:"signal"` // a word for programs; see package runaway
	Seen   string    `json:"seen"`   // a sentence for people, without any text of a caller
}

// ResumedKey is when a key was resumed. What was seen before does not pause it again.
type ResumedKey struct {
	KeyID string    `json:"key"`
	At    time.Time `json:"at"`
}

// Action returns what is to be done.
func (r *Runaway) Action() OnRunaway {
	if r.On == "" {
		return Alert
	}
	return r.On
}

// Times returns the factor.
func (r *Runaway) Times() int {
	if r.Factor == 0 {
		return UsualFactor
	}
	return r.Factor
}

// Pause returns why calls of a key are refused; nil: they are not. Nearly always no key is paused, so that it costs a comparison.
func (r *Runaway) Pause(keyID string) *PausedKey {
	for i := range r.Paused {
		if r.Paused[i].KeyID == keyID {
			return &r.Paused[i]
		}
	}
	return nil
}

// ResumedAt returns when a key was resumed; zero: never.
func (r *Runaway) ResumedAt(keyID string) time.Time {
	for i := range r.Resumed {
		if r.Resumed[i].KeyID == keyID {
			return r.Resumed[i].At
		}
	}
	return time.Time{}
}

// Text returns the choice as it is stored; empty if nothing was chosen or done.
func (r *Runaway) Text() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // plain fields always encode
	}
	if string(text) == "{}" {
		return ""
	}
	return string(text)
}

// ParseRunaway is the inverse of Text. A text that cannot be read is an error: a key that is paused must not become one that is not.
func ParseRunaway(text string) (r Runaway, err error) {
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("read the runaway watch of an account: %w", err)
	}
	return r, nil
}

// OnRunaways are all choices, in the order in which pages list them.
func OnRunaways() []OnRunaway { return []OnRunaway{Alert, Pause, Off} }

// SetRunaway changes what is done about programs that run away. What is nil stays as it is, and so do keys that are paused.
func (as *Accounts) SetRunaway(ctx context.Context, actor, ref string, on *OnRunaway, factor *int) (*Account, error) {
	switch {
	case on != nil && !slices.Contains(OnRunaways(), *on):
		return nil, fault.New(fault.Invalid, "on_runaway must be one of alert, pause and off.").At("on_runaway")
	case factor != nil && (*factor < leastFactor || *factor > mostFactor):
		return nil, fault.New(fault.Invalid, "factor must be a whole number from %d to %d.", leastFactor, mostFactor).At("factor")
	}
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		r := &a.Runaway
		wasOn, wasFactor := r.Action(), r.Times()
		if on != nil {
			r.On = *on
		}
		if factor != nil {
			r.Factor = *factor
		}
		if r.Action() != wasOn || r.Times() != wasFactor {
			e.Action, e.Detail = "budget.watch", fmt.Sprintf("%s, factor %d", r.Action(), r.Times())
		}
		return nil
	})
}

// PauseKey refuses the calls of a key from now on, if its account wants that. It does nothing for a key that is paused already, or was
// resumed since.
func (as *Accounts) PauseKey(ctx context.Context, actor, ref string, p PausedKey) (*Account, error) {
	p.At, p.Seen = p.At.UTC().Truncate(time.Millisecond), excerpt.Head(p.Seen, maxSeen)
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		r := &a.Runaway
		if r.Action() != Pause || a.Key(p.KeyID) == nil || r.Pause(p.KeyID) != nil || !p.At.After(r.ResumedAt(p.KeyID)) {
			return nil
		}
		r.Paused = append(a.existing(r.Paused, ""), p)
		e.Action, e.Detail = "key.pause", p.KeyID+": "+p.Seen
		return nil
	})
}

// ResumeKey lets the calls of a paused key pass again. It does nothing for a key that is not paused.
func (as *Accounts) ResumeKey(ctx context.Context, actor, ref, keyID string) (*Account, error) {
	return as.change(ctx, actor, ref, func(a *Account, e *Entry) error {
		if a.Key(keyID) == nil {
			return fault.New(fault.NotFound, "The account has no key %q. The refusal of a paused key names it in error.budget.scope.", excerpt.Of(keyID, maxEcho)).At("key")
		}
		r := &a.Runaway
		if r.Pause(keyID) == nil {
			return nil
		}
		r.Paused = a.existing(r.Paused, keyID)
		resumed := slices.DeleteFunc(slices.Clone(r.Resumed), func(k ResumedKey) bool { return k.KeyID == keyID || a.Key(k.KeyID) == nil })
		r.Resumed = append(resumed, ResumedKey{keyID, e.At})
		e.Action, e.Detail = "key.resume", keyID
		return nil
	})
}

// existing returns a copy of a list of paused keys: those that there still are, without one.
func (a *Account) existing(list []PausedKey, without string) []PausedKey {
	return slices.DeleteFunc(slices.Clone(list), func(k PausedKey) bool { return k.KeyID == without || a.Key(k.KeyID) == nil })
}

package overview

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"
)

const (
	// KeptDays is how many days are kept, the current one included.
	KeptDays = 90
	// AddEvery is how often minutes are added to the days.
	AddEvery = 5 * time.Minute
	// late is how old a minute must be before it is added to its day: all nodes have stored it by then.
	late = 2 * time.Minute
	// rereadEvery is how often days are read from the database at most, while somebody looks.
	rereadEvery = 30 * time.Second
	// showEvery is how often the history is added up at most.
	showEvery = 5 * time.Second
)

// DayStore keeps the days.
type DayStore interface {
	// AddDays calls sums with the time since which minutes have not been added, adds what it returns to the days, and
	// remembers the time that it returns. It deletes days before the given one. All of it is one transaction, so that
	// two nodes do not add the same minutes.
	AddDays(ctx context.Context, before int64, sums func(from time.Time) ([]HealthDay, time.Time)) error
	// Days calls yield for all days from one on, and returns the time since which minutes have not been added.
	Days(ctx context.Context, from int64, yield func(HealthDay)) (time.Time, error)
}

// Record is what models and upstreams did in the last 90 days. It is safe for concurrent use.
type Record struct {
	board *Board
	store DayStore
	log   *slog.Logger
	now   func() time.Time // replaced in tests

	mu    sync.Mutex
	read  time.Time // when the days were last read
	days  map[Subject]map[int64]Span
	added time.Time // minutes from here on are not in days
	shown map[Subject][]Span
	at    time.Time // when shown was made
}

// NewRecord returns the record of what the board sees.
func NewRecord(board *Board, store DayStore, log *slog.Logger) *Record {
	return &Record{board: board, store: store, log: log, now: board.now, days: map[Subject]map[int64]Span{}}
}

// Add adds the minutes of all nodes that are over to their days. One node does it.
func (r *Record) Add(ctx context.Context) {
	now := r.now()
	minutes := r.board.Minutes(ctx)
	err := r.store.AddDays(ctx, dayOf(now)-KeptDays+1, func(from time.Time) ([]HealthDay, time.Time) {
		to := now.Add(-late).UTC().Truncate(time.Minute)
		if !to.After(from) { // the clock of another node is ahead
			return nil, from
		}
		sums := map[Subject]map[int64]Span{}
		for i := range minutes {
			if m := &minutes[i]; !m.At.Before(from) && m.At.Before(to) {
				m.addTo(sums)
			}
		}
		var days []HealthDay
		for subject, spans := range sums {
			for day, span := range spans {
				days = append(days, HealthDay{subject, day, span})
			}
		}
		return days, to
	})
	if err != nil && ctx.Err() == nil {
		r.log.Warn("the daily figures of models could not be stored yet; they will be later", "error", err.Error())
	}
}

// addTo adds what a minute knows of each subject to the sums of its day.
func (m *Minute) addTo(sums map[Subject]map[int64]Span) {
	add := func(s Subject, span Span) {
		if sums[s] == nil {
			sums[s] = map[int64]Span{}
		}
		sum := sums[s][dayOf(m.At)]
		sum.Merge(&span)
		sums[s][dayOf(m.At)] = sum
	}
	for id, span := range m.Models {
		add(Subject{ModelKind, id}, span)
	}
	for name, t := range m.Targets {
		provider, _, _ := strings.Cut(name, "/")
		add(Subject{UpstreamKind, provider}, Span{Calls: t.Answered + t.Failed, Failed: t.Failed})
	}
	for provider, span := range m.Upstreams {
		add(Subject{UpstreamKind, provider}, span)
	}
}

// History returns what each subject did in the last 90 days: the oldest day first, today last. What is not in the
// database yet is counted, too. While the database is away, the days are as they were. The caller must not modify it.
func (r *Record) History(ctx context.Context) map[Subject][]Span {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shown == nil || now.Sub(r.at) >= showEvery {
		r.shown, r.at = r.history(ctx, now), now
	}
	return r.shown
}

// history adds up the history. The caller holds mu.
func (r *Record) history(ctx context.Context, now time.Time) map[Subject][]Span {
	minutes := r.board.Minutes(ctx)
	today := dayOf(now)
	first := today - KeptDays + 1
	r.reread(ctx, now, first)
	out := make(map[Subject][]Span, len(r.days))
	place := func(s Subject, day int64, span *Span) {
		if day < first || day > today {
			return
		}
		list := out[s]
		if list == nil {
			list = make([]Span, KeptDays)
			out[s] = list
		}
		list[day-first].Merge(span)
	}
	fresh := map[Subject]map[int64]Span{}
	for i := range minutes {
		if !minutes[i].At.Before(r.added) {
			minutes[i].addTo(fresh)
		}
	}
	for _, known := range []map[Subject]map[int64]Span{r.days, fresh} {
		for s, days := range known {
			for day, span := range days {
				place(s, day, &span)
			}
		}
	}
	return out
}

// reread reads the days if it is time to: all of them at first, and later those that still change. The caller holds mu.
func (r *Record) reread(ctx context.Context, now time.Time, first int64) {
	if now.Sub(r.read) < rereadEvery {
		return
	}
	from := first
	if !r.read.IsZero() {
		from = dayOf(now) - 1
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	fresh := map[Subject]map[int64]Span{}
	added, err := r.store.Days(ctx, from, func(d HealthDay) {
		if fresh[d.Subject] == nil {
			fresh[d.Subject] = map[int64]Span{}
		}
		fresh[d.Subject][d.Day] = d.Span
	})
	if err != nil {
		r.log.Warn("the figures of models for earlier days could not be read", "error", err.Error())
		if !r.read.IsZero() {
			r.read = now // a database that is away is not asked by everybody who looks
		}
		return
	}
	r.read, r.added = now, added
	for s, days := range r.days {
		maps.DeleteFunc(days, func(day int64, _ Span) bool { return day < first })
		if len(days) == 0 {
			delete(r.days, s)
		}
	}
	for s, days := range fresh {
		if r.days[s] == nil {
			r.days[s] = map[int64]Span{}
		}
		maps.Copy(r.days[s], days)
	}
}

// Lately returns what a model did in the last three hours, in parts of equal length, the oldest first. An empty name
// stands for all models together.
func (r *Record) Lately(ctx context.Context, model string, parts int) []Span {
	out := make([]Span, parts)
	minutes := r.board.Minutes(ctx)
	for i := range minutes {
		m := &minutes[i]
		s, known := m.Models[model]
		if model == "" {
			s, known = Span{Calls: m.Calls, Failed: m.Failed, Took: m.Took, First: m.First}, true
		}
		if known {
			out[i*parts/len(minutes)].Merge(&s)
		}
	}
	return out
}

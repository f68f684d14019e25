package routing

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/seal"
	"sluice/internal/upstream/catalog"
)

// table is a database that nodes share. It can fail, and it can be slow.
type table struct {
	mu     sync.Mutex
	models map[ConversationID]string
	moved  []Conversation
	err    error
	slow   time.Duration
	finds  int
	writes [][]Conversation
}

func (d *table) FindConversation(ctx context.Context, id ConversationID) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finds++
	if d.slow > 0 {
		d.mu.Unlock()
		<-ctx.Done()
		d.mu.Lock()
		return "", ctx.Err()
	}
	return d.models[id], d.err
}

func (d *table) KeepConversations(_ context.Context, list []Conversation, _ time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return d.err
	}
	d.writes = append(d.writes, list)
	for _, c := range list {
		if was := d.models[c.ID]; (was != "" || c.Moved) && was != c.Model {
			d.moved = append(d.moved, c)
		}
		d.models[c.ID] = c.Model
	}
	return nil
}

func (d *table) MovedConversations(context.Context, time.Duration, int) ([]Conversation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.moved), d.err
}

// seen returns how often the database was asked, and what was written to it.
func (d *table) seen() (finds int, writes [][]Conversation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.finds, slices.Clone(d.writes)
}

// join makes the house's router one of several on the database.
func (h *house) join(d *table, key seal.Key) *house {
	h.router = NewRouter(&RouterOptions{Shared: d, Key: key, Log: slog.New(slog.DiscardHandler)})
	h.router.now = func() time.Time { return h.now }
	go h.router.Run(h.Context())
	return h
}

// turn is what a caller sends: n earlier answers and the next question.
func turn(beginning string, n int) string {
	return `{"role":"user","content":"` + beginning + `"}` + strings.Repeat(`,{"role":"assistant","content":"Yes."},{"role":"user","content":"And now?"}`, n)
}

// ask chooses a model as a call does that is admitted.
func (h *house) ask(messages string) Choice {
	h.Helper()
	got, err := h.router.Choose(h.Context(), h.query("service/auto", account.Basic, parseMessages(h.T, messages, "")))
	if err != nil {
		h.Fatal(err)
	}
	h.router.Share(&got)
	return got
}

func (h *house) wants(messages, model string, sticky bool) {
	h.Helper()
	if got := h.ask(messages); got.Model.ID != model || got.Sticky != sticky {
		h.Errorf("%s went to %s (%s), want %s, sticky %t", messages, got.Model.ID, got.Reason, model, sticky)
	}
}

// slowDown makes a model look slow to one node, so that it prefers another.
func (h *house) slowDown(id string) {
	p, _ := h.target(id).health.begin(h.now, wanted)
	h.target(id).health.answered(&p, epoch, 20*time.Second)
}

func twoHouses(t *testing.T) (one, two *house, d *table) {
	d = &table{models: map[ConversationID]string{}}
	models := func() []catalog.Model {
		return []catalog.Model{model("a", account.Free, priced(2, 80)), model("b", account.Free, priced(2, 79))}
	}
	key := seal.NewKey()
	return build(t, models()).join(d, key), build(t, models()).join(d, key), d
}

// A conversation keeps its model on every node, although the nodes would choose differently, and asks the
// database once a node. First turns never ask.
func TestShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two, d := twoHouses(t)
		two.slowDown("a") // so node two would choose b
		one.wants(turn("Hello", 0), "a", false)
		time.Sleep(writeAfter)
		synctest.Wait()
		if finds, writes := d.seen(); finds != 0 || len(writes) != 1 {
			t.Errorf("the first turn asked the database %d times and wrote %d times, want none and once, in the background", finds, len(writes))
		}
		for n := 1; n < 6; n++ {
			two.wants(turn("Hello", n), "a", true)
			one.wants(turn("Hello", n), "a", true)
		}
		if finds, _ := d.seen(); finds != 1 {
			t.Errorf("five turns asked the database %d times, want once", finds)
		}
		two.wants(turn("Something else", 0), "b", false)
		two.wants(turn("Never seen", 3), "b", false)
		time.Sleep(writeAfter)
		synctest.Wait()
		one.wants(turn("Something else", 1), "b", true)

		// A call that is refused after the choice shares nothing.
		_, before := d.seen()
		if _, err := one.router.Choose(t.Context(), one.query("service/auto", account.Basic, parseMessages(t, turn("Refused", 0), ""))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, after := d.seen(); len(after)-len(before) != 1 { // the turn of "Something else"
			t.Errorf("%d writes, want 1", len(after)-len(before))
		}
	})
}

// A conversation that had to change its model on one node is not taken back by another.
func TestSharedMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two, _ := twoHouses(t)
		one.wants(turn("Hello", 0), "a", false)
		time.Sleep(writeAfter)
		synctest.Wait()
		two.fail("a")
		two.wants(turn("Hello", 1), "b", false)
		time.Sleep(writeAfter + movesEvery)
		synctest.Wait()
		one.wants(turn("Hello", 2), "b", true)
		two.wants(turn("Hello", 3), "b", true)
	})
}

// A database that is slow or away costs a request 50 ms at most, and not every request. What could not be
// written is written later.
func TestSharedAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two, d := twoHouses(t)
		two.slowDown("a")
		one.wants(turn("Hello", 0), "a", false)
		time.Sleep(writeAfter)
		synctest.Wait()
		set := func(slow time.Duration, err error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.slow, d.err = slow, err
		}
		set(time.Hour, nil)
		start := time.Now()
		two.wants(turn("Hello", 1), "b", false)
		if took := time.Since(start); took != lookPatience {
			t.Errorf("a slow database took %s, want %s", took, lookPatience)
		}
		start = time.Now()
		two.wants(turn("Good day", 1), "b", false)
		if took := time.Since(start); took != 0 {
			t.Errorf("the next request waited %s, want it not to ask", took)
		}
		set(0, errors.New("away"))
		one.wants(turn("While it was away", 0), "a", false)
		time.Sleep(20 * time.Second)
		set(0, nil)
		time.Sleep(movesEvery)
		synctest.Wait()
		two.wants(turn("While it was away", 1), "a", true)
		one.router.shared.mu.Lock()
		defer one.router.shared.mu.Unlock()
		if n := len(one.router.shared.unwritten); n != 0 {
			t.Errorf("%d choices are still unwritten, want none", n)
		}
	})
}

// What waits to be written and how many ask at once is bounded.
func TestSharedBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &table{models: map[ConversationID]string{}, slow: time.Hour}
		s := newSharing(d, seal.Key{}, slog.New(slog.DiscardHandler))
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() { s.find(t.Context(), ConversationID{byte(i)}) })
		}
		wg.Wait()
		if finds, _ := d.seen(); finds != looksAtOnce {
			t.Errorf("%d asked at once, want %d", finds, looksAtOnce)
		}
		for i := range mostUnwritten + 50 {
			s.put(Conversation{ID: ConversationID{byte(i >> 16), byte(i >> 8), byte(i)}, Model: "m"})
		}
		s.put(Conversation{Model: "newer"})
		if n := len(s.unwritten); n != mostUnwritten || s.unwritten[ConversationID{}].Model != "newer" {
			t.Errorf("%d choices wait, want %d, and the latest of each", n, mostUnwritten)
		}
		s.write(t.Context())
		if len(d.models) != mostUnwritten || len(s.unwritten) != 0 {
			t.Errorf("%d were written and %d are left, want all", len(d.models), len(s.unwritten))
		}
		for _, list := range d.writes {
			if len(list) > writeAtOnce || !slices.IsSortedFunc(list, func(a, b Conversation) int { return strings.Compare(string(a.ID[:]), string(b.ID[:])) }) {
				t.Errorf("%d were written at once, in order or not, want at most %d in order", len(list), writeAtOnce)
			}
		}
	})
}

// Ids are the same on all nodes, and different for other accounts, beginnings and services.
func TestConversationID(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	s, same, other := newSharing(nil, key, nil), newSharing(nil, key, nil), newSharing(nil, seal.NewKey(), nil)
	id := func(s *sharing, account, messages string) ConversationID {
		return s.id(account, parseMessages(t, messages, "").Opening(), &bench{})
	}
	base := id(s, "acct_1", turn("Hello", 0))
	if base != id(same, "acct_1", turn("Hello", 4)) {
		t.Error("two nodes, or two turns, give a conversation different ids")
	}
	for name, got := range map[string]ConversationID{
		"account": id(s, "acct_2", turn("Hello", 0)), "beginning": id(s, "acct_1", turn("Good day", 0)), "service": id(other, "acct_1", turn("Hello", 0)),
	} {
		if got == base {
			t.Errorf("another %s has the same id", name)
		}
	}
}

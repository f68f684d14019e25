package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/admission"
)

// seed returns where the randomness of a test begins.
func seed(t *testing.T) uint64 {
	if v, err := strconv.ParseUint(os.Getenv("SLUICE_SEED"), 10, 64); err == nil {
		return v
	}
	s := rand.Uint64()
	t.Logf("SLUICE_SEED=%d", s)
	return s
}

// TestParts lets nodes join, leave, die and come back, and the database go away, in any order and at any time.
// At no time do the parts of the living add up to more than a limit, no minute holds more than twice of it, or once
// if the nodes count in Redis otherwise, and when things have been calm for two minutes, a minute holds the limit and
// no call more or less.
func TestParts(t *testing.T) {
	t.Parallel()
	rounds := 30
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds = 500
	}
	first := seed(t)
	for i := range rounds {
		if t.Failed() {
			break
		}
		for mode, most := range map[Mode]int{Approximate: 2, Exact: 1} {
			synctest.Test(t, func(t *testing.T) { newWorld(t, first+uint64(i), mode, most).run() })
		}
	}
}

// world is one run.
type world struct {
	*testing.T
	seed   uint64
	r      *rand.Rand
	db     *database
	living []*server
	idle   []*server // stopped or killed; their data folders are still there
	made   int
	calls  []time.Time // admitted, over all nodes
	limit  int
	mode   Mode
	most   int // limits that a minute holds
}

// server is a data folder and what runs on it.
type server struct {
	id     string
	ledger *admission.Memory // outlives the process, as the journal does
	*Cluster
	next time.Time // of the next beat
}

func newWorld(t *testing.T, seed uint64, mode Mode, most int) *world {
	r := rand.New(rand.NewPCG(seed, 0))
	return &world{T: t, seed: seed, r: r, db: newDatabase(), limit: []int{1, 2, 3, 10, 100}[r.IntN(5)], mode: mode, most: most}
}

func (w *world) fail(format string, args ...any) {
	w.Helper()
	w.Fatalf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

func (w *world) run() {
	awayUntil := time.Time{}
	for range 600 + w.r.IntN(600) {
		w.db.setAway(time.Now().Before(awayUntil))
		switch w.r.IntN(100) {
		case 0, 1:
			if len(w.living) < 5 && !w.db.away {
				w.start(nil)
			}
		case 2, 3:
			if len(w.idle) > 0 && !w.db.away {
				w.start(w.idle[w.r.IntN(len(w.idle))])
			}
		case 4:
			w.end(true)
		case 5:
			w.end(false)
		case 6:
			awayUntil = time.Now().Add(time.Duration(w.r.IntN(60)) * time.Second)
		}
		w.step()
	}
	w.db.setAway(false)
	if len(w.living) == 0 {
		w.start(nil)
	}
	for range 400 { // dead nodes are forgotten, and what was admitted before has expired
		w.step()
	}
	calm := time.Now()
	for range 240 {
		w.step()
	}
	sum := 0
	for _, at := range w.calls {
		if at.After(calm) && time.Since(at) <= span { // an entry counts from the end of its millisecond
			sum++
		}
	}
	if sum != w.limit {
		w.fail("%d nodes admitted %d calls in a calm minute, want %d", len(w.living), sum, w.limit)
	}
}

// start runs a new server, or one that has been there before.
func (w *world) start(s *server) {
	if s == nil {
		w.made++
		s = &server{id: fmt.Sprintf("%c%d", 'a'+w.r.IntN(26), w.made), ledger: admission.NewMemory(nil)} // any rank
	}
	w.idle = slices.DeleteFunc(w.idle, func(x *server) bool { return x == s })
	c := Single()
	c.store, c.missing = &link{database: w.db}, map[string]time.Time{}
	c.me = Node{ID: s.id, Life: fmt.Sprint(s.id, "-", w.r.Uint64()), Mode: w.mode}
	if err := c.enter(w.Context()); err != nil {
		w.fail("enter = %v", err)
	}
	if err := c.beat(w.Context()); err != nil {
		w.fail("beat = %v", err)
	}
	s.Cluster, s.next = c, time.Now().Add(beatEvery)
	w.living = append(w.living, s)
}

// end stops one server: in an orderly way, or by killing it.
func (w *world) end(orderly bool) {
	if len(w.living) == 0 {
		return
	}
	s := w.living[w.r.IntN(len(w.living))]
	if orderly {
		s.remove(w.Context())
	}
	w.living = slices.DeleteFunc(w.living, func(x *server) bool { return x == s })
	w.idle = append(w.idle, s)
}

// step lets half a second or so go by, in which nodes beat and take what they can get.
func (w *world) step() {
	time.Sleep(time.Duration(w.r.IntN(1000)) * time.Millisecond) // the bubble's clock
	for _, s := range w.living {
		if !time.Now().Before(s.next) {
			_ = s.beat(w.Context()) // fails while the database is away
			s.next = time.Now().Add(beatEvery)
		}
	}
	w.check()
	limits := account.Limits{RequestsPerMinute: account.Limit(w.limit), TokensPerMinute: account.Unlimited, Concurrent: account.Unlimited}
	for _, s := range w.living {
		ledger := admission.NewDivided(s.ledger, s.Views)
		for {
			p, _, o := ledger.Take("acct_1", limits, admission.Cost{RequestMilli: 1000})
			if o != nil {
				break
			}
			ledger.Free("acct_1", p, admission.Cost{RequestMilli: 1000})
			w.calls = append(w.calls, time.Now())
		}
	}
	w.calls = slices.DeleteFunc(w.calls, func(at time.Time) bool { return time.Since(at) > span })
	if len(w.calls) > w.most*w.limit {
		w.fail("%d calls were admitted in a minute by nodes that are %s, and the limit is %d", len(w.calls), w.mode, w.limit)
	}
}

// check adds up the parts of the living.
func (w *world) check() {
	for _, limit := range []account.Limit{1, 2, 10, 1000} {
		for i := range 3 {
			var sum account.Limit
			for _, s := range w.living {
				sum += admission.Shares(s.Views(), fmt.Sprint("acct_", i), account.Limits{RequestsPerMinute: limit}).RequestsPerMinute
			}
			if sum > limit {
				w.fail("the parts of %d nodes add up to %d of %d: %+v", len(w.living), sum, limit, w.db.state)
			}
		}
	}
}

package redisledger

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/admission/ledgertest"
	"sluice/internal/testkit/redistest"
)

// spot is the place of a node in a list of nodes that does not change.
type spot struct {
	id string
	admission.View
}

// at returns the spot of one of some nodes.
func at(rank, nodes int) spot {
	return spot{fmt.Sprint("node", rank), admission.View{Rank: rank, Nodes: nodes}}
}

func (s spot) ID() string              { return s.id }
func (s spot) Live() int               { return s.Nodes }
func (s spot) Views() []admission.View { return []admission.View{s.View} }
func (s spot) List() (int64, bool)     { return 1, true }

// memo is a Memory that the nodes of a test share.
type memo struct {
	mu    sync.Mutex
	table string
	err   error // why it does not answer
}

func (m *memo) LedgerTable(context.Context) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table, m.err
}

func (m *memo) KeepLedgerTable(_ context.Context, table string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.table = table
	}
	return m.err
}

// open returns a ledger of the only node and closes it when the test ends. Nil options mean a prefix of its own.
func open(t testing.TB, url string, opts Options) *Ledger {
	t.Helper()
	return openAt(t, url, at(0, 1), &memo{}, opts)
}

func openAt(t testing.TB, url string, members Members, memory Memory, opts Options) *Ledger {
	t.Helper()
	if opts.Prefix == "" {
		opts.Prefix = redistest.Prefix()
	}
	l, err := Open(t.Context(), url, members, memory, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// raw returns the client of a ledger, for commands of a test's own.
func raw(l *Ledger) rueidis.Client { return l.link.transport().(client).Client }

// patient is a deadline for tests in which Redis is well: a busy machine must not look like an outage.
const patient = 30 * time.Second

// subject returns three nodes on one Redis.
func subject(t *testing.T, url string, c *ledgertest.Clock) ledgertest.Subject {
	var s ledgertest.Subject
	var ledgers []*Ledger
	prefix, memory := redistest.Prefix(), &memo{}
	for i := range 3 {
		l := openAt(t, url, at(i, 3), memory, Options{Prefix: prefix, Now: c.Now, Lease: 2 * time.Hour, Deadline: patient})
		if st := l.State(); !st.Exact {
			t.Fatalf("state = %+v, want exact", st)
		}
		s.Nodes, ledgers = append(s.Nodes, l), append(ledgers, l)
	}
	s.Flush = func() {
		for _, l := range ledgers {
			l.Flush(t.Context())
		}
	}
	return s
}

func TestSuite(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	ledgertest.Run(t, func(t *testing.T, c *ledgertest.Clock) ledgertest.Subject { return subject(t, url, c) })
}

// One node does not flush by hand: what ended is sent ahead of what asks.
func TestSuiteOfOneNode(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	ledgertest.Run(t, func(t *testing.T, c *ledgertest.Clock) ledgertest.Subject {
		s := subject(t, url, c)
		return ledgertest.Subject{Nodes: s.Nodes[:1]}
	})
}

// Windows are read in pages. With pages of one record, most of the suite's windows are longer than one. Not
// parallel: it changes the scripts.
func TestSuiteInPieces(t *testing.T) {
	texts := map[*script]script{}
	for _, s := range scripts() {
		texts[s] = *s
		*s = *newScript(strings.Replace(s.text, "PAGE = 60000, 120000, 8", "PAGE = 60000, 120000, 1", 1))
	}
	if takeScript.hash == texts[takeScript].hash {
		t.Fatal("the scripts have no page of 8 records")
	}
	// The suite runs in parallel with itself, and this waits for it.
	t.Run("suite", func(t *testing.T) {
		url := redistest.URL(t)
		ledgertest.Run(t, func(t *testing.T, c *ledgertest.Clock) ledgertest.Subject { return subject(t, url, c) })
	})
	for s, text := range texts {
		*s = text
	}
}

func TestSuiteOnCluster(t *testing.T) {
	t.Parallel()
	if os.Getenv("SLUICE_SOAK") == "" {
		t.Skip("long: set SLUICE_SOAK=1")
	}
	url := redistest.OwnCluster(t)[0].URL()
	ledgertest.Run(t, func(t *testing.T, c *ledgertest.Clock) ledgertest.Subject { return subject(t, url, c) })
}

func TestKeys(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	ledgertest.RunKeys(t, func(t *testing.T, c *ledgertest.Clock) ledgertest.Subject { return subject(t, url, c) })
}

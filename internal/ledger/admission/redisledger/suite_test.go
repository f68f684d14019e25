package redisledger

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice/internal/ledger/admission/ledgertest"
	"sluice/internal/testkit/redistest"
)

// open returns a ledger and closes it when the test ends. Nil options mean a prefix of its own.
func open(t testing.TB, url string, opts Options) *Ledger {
	t.Helper()
	if opts.Prefix == "" {
		opts.Prefix = redistest.Prefix()
	}
	l, err := Open(t.Context(), url, &opts)
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
	prefix := redistest.Prefix()
	for i := range 3 {
		l := open(t, url, Options{Node: fmt.Sprint("node", i), Prefix: prefix, Now: c.Now, Lease: 2 * time.Hour, Deadline: patient})
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

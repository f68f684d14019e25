package admission_test

import (
	"testing"

	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/admission/ledgertest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(_ *testing.T, c *ledgertest.Clock) ledgertest.Subject {
		return ledgertest.Subject{Nodes: []ledgertest.Ledger{admission.NewMemory(c.Now)}}
	})
}

// A node that has the whole of each limit counts as one that is alone.
func TestSuiteDivided(t *testing.T) {
	t.Parallel()
	views := []admission.View{{Rank: 0, Nodes: 1}}
	ledgertest.Run(t, func(_ *testing.T, c *ledgertest.Clock) ledgertest.Subject {
		return ledgertest.Subject{Nodes: []ledgertest.Ledger{admission.NewDivided(admission.NewMemory(c.Now), func() []admission.View { return views })}}
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	ledgertest.RunKeys(t, func(_ *testing.T, c *ledgertest.Clock) ledgertest.Subject {
		return ledgertest.Subject{Nodes: []ledgertest.Ledger{admission.NewMemory(c.Now)}}
	})
}

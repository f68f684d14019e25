package admission_test

import (
	"testing"

	"sluice/internal/admission"
	"sluice/internal/admission/ledgertest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(_ *testing.T, c *ledgertest.Clock) ledgertest.Subject {
		return ledgertest.Subject{Nodes: []ledgertest.Ledger{admission.NewMemory(c.Now)}}
	})
}

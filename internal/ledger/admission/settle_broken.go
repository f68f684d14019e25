//go:build sluice_breaks_settle

package admission

import "math/rand/v2"

// forgets loses one settlement in three on purpose: TestFindsBugs in internal/testkit/faulttest wants its tests to notice.
func (*Lease) forgets() bool { return rand.IntN(3) == 0 }

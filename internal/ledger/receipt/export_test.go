package receipt

import "time"

// SetClock replaces the clock, before the notary is used.
func (n *Notary) SetClock(now func() time.Time) { n.now = now }

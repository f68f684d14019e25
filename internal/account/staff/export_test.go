package staff

import "time"

// SetClock makes a roster read the time from now.
func (r *Roster) SetClock(now func() time.Time) { r.now = now }

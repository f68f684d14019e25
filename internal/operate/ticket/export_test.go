package ticket

import "time"

// SetClock makes an office read the time from now.
func (o *Office) SetClock(now func() time.Time) { o.now = now }

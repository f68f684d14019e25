//go:build sluice_steps_clock

package faulttest

import "time"

// stepped is how many seconds the clock of this program is ahead. The package time of the standard library has no such
// variable: TestClockStepped adds it.
var stepped = &time.Stepped

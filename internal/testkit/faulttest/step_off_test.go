//go:build !sluice_steps_clock

package faulttest

// stepped is nil: the clock of this program cannot be stepped. See TestClockStepped.
var stepped *int64

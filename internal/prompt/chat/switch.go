package chat

import "slices"

// Switch is a boolean that may be left out.
type Switch uint8

// The states of a switch.
const (
	Unset Switch = iota
	Off
	On
)

// switches are the names of the states, for settings.
var switches = [...]string{"default", "off", "on"}

// String returns default, off or on.
func (s Switch) String() string { return switches[s] }

// ParseSwitch returns the switch of a name, and reports whether there is one.
func ParseSwitch(name string) (Switch, bool) {
	i := slices.Index(switches[:], name)
	return Switch(max(i, 0)), i >= 0
}

// SwitchOf returns the switch of a boolean that is given.
func SwitchOf(on bool) Switch {
	if on {
		return On
	}
	return Off
}

// Or returns the switch, or another one if it is not set.
func (s Switch) Or(other Switch) Switch {
	if s == Unset {
		return other
	}
	return s
}

package usage

import "time"

// By is what sums are shown by.
type By string

const (
	ByDay   By = "day"
	ByModel By = "model"
	ByKey   By = "key"
)

// Point is a place in an account's list of calls. The zero ID comes before all calls of its time.
type Point struct {
	At time.Time
	ID string
}

// Query asks for an account's sums from a day on, or from an hour on. KeyID and Model narrow it down; empty:
// all of them.
type Query struct {
	AccountID string
	From      time.Time
	By        By
	KeyID     string
	Model     string
	Hours     bool // From is an hour, and ByDay means by hour
}

package usage

import "time"

// By says what sums are grouped by.
type By string

const (
	ByDay   By = "day"
	ByModel By = "model"
	ByKey   By = "key"
)

// Point is a position in an account's list of calls, which is ordered by At and then by ID. Pages
// use it to continue a list. An empty ID comes before all calls of the same time.
type Point struct {
	At time.Time
	ID string
}

// Query asks for an account's sums since From. KeyID and Model restrict it to one key or one model;
// if empty, all count.
type Query struct {
	AccountID string
	From      time.Time
	By        By
	KeyID     string
	Model     string
	Hours     bool // From is an hour, and ByDay means by hour
}

package usage

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

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

// maxID is the length of an id in a cursor at most, in bytes.
const maxID = 128

// String returns the point as a cursor for callers. It is no secret, and ParsePoint trusts nothing in it.
func (p Point) String() string { return fmt.Sprintf("%d.%s", p.At.UnixMilli(), p.ID) }

// ParsePoint reads a cursor that String has written.
func ParsePoint(text string) (Point, bool) {
	at, id, ok := strings.Cut(text, ".")
	ms, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || ms < 0 || ms > 1<<53 || id == "" || len(id) > maxID {
		return Point{}, false
	}
	return Point{time.UnixMilli(ms).UTC(), id}, true
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

// Span is a stretch of time, and an account if only its calls count. From belongs to it, To does not.
type Span struct {
	AccountID string
	From, To  time.Time
}

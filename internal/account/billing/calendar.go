package billing

import "time"

// retryDays are the days after the first failure of a renewal at which it is retried. After the
// last the plan lapses.
var retryDays = [...]int{3, 5, 7}

const day = 24 * time.Hour

// boundary returns the end of the n-th period of a subscription: n months after it began, on the
// same day, or on the last day of a month that has no such day. It counts from the beginning each
// time, so that a subscription that began on the 31st returns to the 31st after February.
func boundary(began time.Time, n int) time.Time {
	first := time.Date(began.Year(), began.Month()+time.Month(n), 1, began.Hour(), began.Minute(), began.Second(), 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(began.Day(), last)-1)
}

// periodAt returns the period of a subscription that contains at. at must not be before began.
func periodAt(began, at time.Time) (start, end time.Time) {
	n := (at.Year()-began.Year())*12 + int(at.Month()-began.Month())
	for boundary(began, n).After(at) {
		n--
	}
	return boundary(began, n), boundary(began, n+1)
}

// prorated returns the part of an amount for the rest of a period, to the second, rounded to the
// nearest cent.
func prorated(cents int64, now, start, end time.Time) int64 {
	rest, whole := int64(end.Sub(now)/time.Second), int64(end.Sub(start)/time.Second)
	return (2*cents*rest + whole) / (2 * whole)
}

// nextRetry returns when a renewal that has failed so often is retried. It is at least a day after
// now: if no server ran for a week, the retries must not all come at once. failed must be from 1 to
// len(retryDays).
func nextRetry(since, now time.Time, failed int) time.Time {
	planned := since.Add(time.Duration(retryDays[failed-1]) * day)
	if soonest := now.Add(day); planned.Before(soonest) {
		return soonest
	}
	return planned
}

package feedback

import "time"

// unit is what a vote or a call is stored as, so that half of it is a whole number, too.
const unit = 1000

const (
	// MostPoints is how far feedback moves the quality of a model at most, of 100 points, and troublePoints the part of
	// it that calls which went wrong can take away.
	MostPoints    = 8
	troublePoints = 4
	// MostVotes and MostCalls are how much one account weighs at most for a model and a kind of task.
	MostVotes = 5
	MostCalls = 20
	// fewVotes and fewCalls are how much doubt there is before anything is known: this many votes move a model half of
	// the way.
	fewVotes = 20
	fewCalls = 50
)

// Points returns how far a sum moves the quality of its model, from -MostPoints to MostPoints.
//
//	8 · (good − bad) / (good + bad + 20) − 4 · troubled / (calls + 50)
//
// The first vote moves it by less than half a point. One account alone moves it by 8·5/25 = 1.6 points by its votes, and
// by 4·20/70 = 1.1 points by its calls.
func Points(s *Sum) float64 {
	good, bad := float64(max(s.Good, 0)), float64(max(s.Bad, 0))
	calls := float64(max(s.Calls, 0))
	troubled := min(float64(max(s.Troubled, 0)), calls)
	points := MostPoints*(good-bad)/(good+bad+fewVotes*unit) - troublePoints*troubled/(calls+fewCalls*unit)
	return max(-MostPoints, points)
}

// WeekOf returns the number of the week, which begins on Monday in UTC.
func WeekOf(t time.Time) int64 { return (t.Unix()/86_400 + 3) / 7 }

// keepWeeks is how long a row is kept that nothing is added to. A call counts a thousandth by then.
const keepWeeks = 10

// FirstWeek returns the first week whose rows are still kept.
func FirstWeek(now time.Time) int64 { return WeekOf(now) - keepWeeks }

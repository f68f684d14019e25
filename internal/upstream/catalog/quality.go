package catalog

import (
	"slices"

	"sluice/internal/account"
)

// Task is a kind of work that the router can distinguish.
type Task uint8

const (
	Chat Task = iota // conversation, questions, short texts
	Code
	Math
	Writing // writing, translating or editing long texts
	Data    // structured output: JSON, lists, tables
	Agent   // calling tools
	Tasks   // the number of tasks
)

// taskNames are the names used in the list of known models.
var taskNames = [Tasks]string{"chat", "code", "math", "writing", "data", "agent"}

// String returns the task's name.
func (t Task) String() string { return taskNames[t] }

// ParseTask returns the task with the given name and reports whether there is one.
func ParseTask(name string) (Task, bool) {
	i := slices.Index(taskNames[:], name)
	return Task(max(i, 0)), i >= 0
}

// Quality is an estimate of how well a model does each kind of task, from 1 to 100. 0 means not
// known.
type Quality [Tasks]uint8

// These are the estimates for a model that nobody has rated: a typical value for its tier, and a
// bonus if it can reason, for the tasks that benefit from reasoning.
const (
	freeQuality    = 50
	basicQuality   = 65
	premiumQuality = 80
	thinkingHelps  = 8
)

// QualityAt returns the estimate for a task. It is never 0.
func (m *Model) QualityAt(t Task) int {
	if q := m.Quality[t]; q > 0 {
		return int(q)
	}
	q := freeQuality
	switch m.Plan {
	case account.Basic:
		q = basicQuality
	case account.Premium:
		q = premiumQuality
	}
	if m.Thinks && (t == Code || t == Math || t == Agent) {
		q += thinkingHelps
	}
	return q
}

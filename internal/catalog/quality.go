package catalog

import (
	"slices"

	"sluice/internal/account"
)

// Task is a kind of work, as far as a router can tell it apart.
type Task uint8

const (
	Chat Task = iota // talk, questions, short texts
	Code
	Math
	Writing // long texts to be made, translated or reworked
	Data    // facts to be put into a form: JSON, lists, tables
	Agent   // tools to be called
	Tasks   // how many there are
)

var taskNames = [Tasks]string{"chat", "code", "math", "writing", "data", "agent"}

func (t Task) String() string { return taskNames[t] }

// ParseTask finds a task by its name.
func ParseTask(name string) (Task, bool) {
	i := slices.Index(taskNames[:], name)
	return Task(max(i, 0)), i >= 0
}

// Quality is an estimate of how well a model does each kind of task, from 1 to 100; 0: not known.
type Quality [Tasks]uint8

// Quality of models about which nobody said anything: that of a usual model of their tier, and a
// little more for what thinking helps with.
const (
	freeQuality    = 50
	basicQuality   = 65
	premiumQuality = 80
	thinkingHelps  = 8
)

// QualityAt is the estimate for a task.
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

package routing

import "sluice/internal/upstream/catalog"

// Strengths are what feedback has taught about models: points that are added to the quality of a model for a kind of
// task, by the model's id. They never change, so many requests read them without a lock. Package feedback makes them.
type Strengths map[string]Points

// Points are the points of one model, by kind of task.
type Points [catalog.Tasks]float32

// Of returns the points of a model for a kind of task. S may be nil, which has none.
func (s *Strengths) Of(model string, t catalog.Task) float64 {
	if s == nil {
		return 0
	}
	return float64((*s)[model][t])
}

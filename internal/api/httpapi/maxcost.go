package httpapi

import (
	"net/http"
	"strings"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
)

// maxCostHeader is max_cost for callers that cannot add a member to the body.
const maxCostHeader = "X-Sluice-Max-Cost"

// maxCost returns the most that the call may cost: the smaller of what its body and its header say; nil if neither does.
func (c *completion) maxCost(h http.Header) (most *price.Nano, err error) {
	asked := ""
	if c.Request != nil {
		asked = c.MaxCost
	} else if c.inputs != nil {
		asked = c.inputs.MaxCost
	}
	if asked != "" {
		if most, err = budget.ParseMaxCost(asked); err != nil {
			return nil, err
		}
	}
	return lowerMaxCost(most, h)
}

// lowerMaxCost returns the smaller of what a body and the header of its request say that a call may cost at most; nil: nothing.
func lowerMaxCost(most *price.Nano, h http.Header) (*price.Nano, error) {
	values := h[maxCostHeader]
	if values == nil {
		return most, nil
	}
	text := strings.Join(values, ", ")
	end, _, _, problem := jsonscan.Number([]byte(text), 0)
	limit, err := budget.ParseMaxCost(text)
	if problem != jsonscan.OK || end != len(text) || err != nil {
		name := strings.ToLower(maxCostHeader)
		return nil, fault.New(fault.Invalid, "%s must be a number of dollars from 0 to %d; got %q.", name, chat.MostCost, excerpt.Of(text, maxEcho)).At(name)
	}
	if most == nil || *limit < *most {
		most = limit
	}
	return most, nil
}

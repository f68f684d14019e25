package video

import (
	"encoding/json"
	"maps"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
)

// The limits and defaults of a request.
const (
	maxPrompt      = 32_000 // characters
	maxSeconds     = 20
	defaultWidth   = 854
	defaultHeight  = 480
	defaultSeconds = 5

	maxEcho = 60 // bytes of a caller's text that a message repeats
)

// sides are the widths and heights there are, with the thousandths of requests that each costs (docs/api.md#video-cost).
var sides = []struct {
	pixels    int
	costMilli int64
}{{480, 1000}, {720, 1500}, {854, 1000}, {1080, 2000}, {1280, 1500}, {1920, 2000}}

// Request is what a caller asks for. All fields are set and valid once Parse has returned it.
type Request struct {
	Prompt  string
	Model   string
	Width   int
	Height  int
	Seconds int
	// MaxCost is the most that the video may cost; nil: budgets alone bound it. It is not stored; see Job.Most. Repeats of a
	// request are compared by it only if it is set.
	MaxCost *price.Nano `json:",omitempty"`
}

// costMilli returns what the request costs in thousandths of a request: the larger of the costs of
// its two sides.
func (r *Request) costMilli() int64 {
	// A side that is not in the table cannot occur: Parse refuses it.
	var cost int64
	for _, s := range sides {
		if s.pixels == r.Width || s.pixels == r.Height {
			cost = max(cost, s.costMilli)
		}
	}
	return cost
}

// Parse reads and checks the body of a request for a job. The given model is the only one that is
// accepted. Fields that it does not know are ignored.
func Parse(body []byte, model string) (Request, error) {
	// Start with the defaults; the fields below replace them.
	r := Request{Model: model, Width: defaultWidth, Height: defaultHeight, Seconds: defaultSeconds}
	fields, err := members(body)
	if err != nil {
		return r, err
	}
	if err := r.readPrompt(fields["prompt"]); err != nil {
		return r, err
	}
	if err := readModel(fields["model"], model); err != nil {
		return r, err
	}
	if err := readSide(fields, "width", &r.Width); err != nil {
		return r, err
	}
	if err := readSide(fields, "height", &r.Height); err != nil {
		return r, err
	}
	if raw := fields["n_seconds"]; raw != nil {
		n, ok := whole(raw)
		if !ok || n < 1 || n > maxSeconds {
			return r, fault.New(fault.Invalid, "n_seconds must be a whole number from 1 to %d; got %s.", maxSeconds, excerpt.Of(string(raw), maxEcho)).At("n_seconds")
		}
		r.Seconds = n
	}
	return r, r.readMaxCost(fields["max_cost"])
}

// readMaxCost reads an optional bound of the cost. Forms write it as a string, and JSON may.
func (r *Request) readMaxCost(raw json.RawMessage) (err error) {
	if raw == nil {
		return nil
	}
	text := string(raw)
	_ = json.Unmarshal(raw, &text) // what is no string stays as it is
	r.MaxCost, err = budget.ParseMaxCost(text)
	return err
}

// readModel checks the name of the model. The field is optional, because there is only one model to choose.
func readModel(raw json.RawMessage, model string) error {
	if raw == nil {
		return nil
	}
	var name string
	if json.Unmarshal(raw, &name) != nil {
		return fault.New(fault.Invalid, "model must be a string.").At("model")
	}
	if name != model {
		return fault.New(fault.Invalid, "There is no video model %s; the only one is %q.", excerpt.Of(string(raw), maxEcho), model).At("model")
	}
	return nil
}

// readPrompt checks the prompt and stores it in r.
func (r *Request) readPrompt(raw json.RawMessage) error {
	if raw == nil {
		return fault.New(fault.Invalid, "prompt is required: say what the video shows.").At("prompt")
	}
	if json.Unmarshal(raw, &r.Prompt) != nil {
		return fault.New(fault.Invalid, "prompt must be a string.").At("prompt")
	}
	if strings.TrimSpace(r.Prompt) == "" {
		return fault.New(fault.Invalid, "prompt must not be empty: say what the video shows.").At("prompt")
	}
	// PostgreSQL cannot store the character in a text column.
	if strings.Contains(r.Prompt, "\x00") {
		return fault.New(fault.Invalid, "prompt must not contain the character U+0000.").At("prompt")
	}
	if n := utf8.RuneCountInString(r.Prompt); n > maxPrompt {
		return fault.New(fault.Invalid, "prompt has %d characters; %d is the most.", n, maxPrompt).At("prompt")
	}
	return nil
}

// readSide reads an optional width or height into to. A missing field leaves the default.
func readSide(fields map[string]json.RawMessage, name string, to *int) error {
	raw := fields[name]
	if raw == nil {
		return nil
	}
	n, ok := whole(raw)
	if !ok || !isSide(n) {
		return fault.New(fault.Invalid, "%s must be one of %s; got %s.", name, allSides(), excerpt.Of(string(raw), maxEcho)).At(name)
	}
	*to = n
	return nil
}

// isSide reports whether a video may be that wide or high.
func isSide(n int) bool {
	for _, s := range sides {
		if s.pixels == n {
			return true
		}
	}
	return false
}

// allSides lists the widths and heights there are, so that the caller need not look them up.
func allSides() string {
	known := make([]string, len(sides))
	for i, s := range sides {
		known[i] = strconv.Itoa(s.pixels)
	}
	return strings.Join(known, ", ")
}

// bodyShape is the keys of a request that we or an upstream read.
var bodyShape = chat.Keys("prompt", "model", "width", "height", "n_seconds", "n_variants", "size", "seconds", "n", "inpaint_items", "input_reference", "max_cost")

// members splits a JSON object into its members. A member that is null counts as missing. A member
// that occurs twice is refused, because readers of the same body could take either value.
func members(body []byte) (map[string]json.RawMessage, error) {
	if _, err := chat.Check(body, "a prompt", bodyShape); err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, fault.New(fault.Invalid, "The body cannot be read as JSON") // Check lets nothing pass that fails here
	}
	maps.DeleteFunc(out, func(_ string, raw json.RawMessage) bool { return string(raw) == "null" })
	return out, nil
}

// whole parses a JSON number without a fraction. 5.0 and 5e0 count as such.
func whole(raw json.RawMessage) (int, bool) {
	if raw[0] == '"' {
		return 0, false
	}
	// The bound keeps the conversion to int safe. It is far above any limit that follows.
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1e6 {
		return 0, false
	}
	return int(f), true
}

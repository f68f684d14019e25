package models

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// directives are orders in the last user message, written [[sandbox:name=value]]. They make failures, delays,
// lengths and calls happen on demand, so that clients can test how they handle them.
type directives struct {
	status int             // fail with this status; 0 if none is asked for
	delay  time.Duration   // before the first event, or before the failure
	tokens int             // reply with exactly this many; 0 if none are asked for
	cut    int             // break off after this many events; -1 if that is not asked for
	calls  []chat.ToolCall // make these calls

	chunkDelay time.Duration // before each later event
}

// mostTokens bounds the numbers of the directives tokens and cut.
const mostTokens = 100_000

// invalid returns the fault of a directive that cannot be followed.
func invalid(format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, format, args...).At("messages")
}

// parseDirectives returns a text without its directives, and what they ask for.
func parseDirectives(text string) (rest string, d directives, err error) {
	d.cut = -1
	before, after, found := strings.Cut(text, "[[sandbox:")
	for ; found; before, after, found = strings.Cut(after, "[[sandbox:") {
		rest += before
		if after, err = d.parse(after); err != nil {
			return "", d, err
		}
	}
	return strings.TrimSpace(rest + before), d, nil
}

// parse reads one directive and returns what follows it.
func (d *directives) parse(text string) (rest string, err error) {
	if call, ok := strings.CutPrefix(text, "call="); ok {
		return d.parseCall(call)
	}
	body, rest, ok := strings.Cut(text, "]]")
	if !ok {
		return "", invalid("A sandbox directive is not closed: it must end with ]].")
	}
	// Each directive but call sets a number within bounds, or a delay of at most a minute.
	numbers := map[string]struct {
		into      *int
		low, high int
	}{"error": {&d.status, 400, 599}, "tokens": {&d.tokens, 1, mostTokens}, "cut": {&d.cut, 0, mostTokens}}
	delays := map[string]*time.Duration{"delay": &d.delay, "chunk_delay": &d.chunkDelay}
	name, value, _ := strings.Cut(strings.TrimSpace(body), "=")
	if n := numbers[name]; n.into != nil {
		if *n.into, err = strconv.Atoi(value); err != nil || *n.into < n.low || *n.into > n.high {
			return "", invalid("The sandbox directive %s needs a whole number between %d and %d.", name, n.low, n.high)
		}
	} else if delay := delays[name]; delay != nil {
		if *delay, err = time.ParseDuration(value); err != nil || *delay < 0 || *delay > time.Minute {
			return "", invalid("The sandbox directive %s needs a duration of at most 60s, such as 500ms or 2s.", name)
		}
	} else {
		return "", invalid("The sandbox directive %q is unknown: use error, delay, chunk_delay, tokens, cut or call.", name)
	}
	return rest, nil
}

// parseCall reads NAME {json}]] and returns what follows it. The JSON may have ]] inside, so it is decoded to find
// its end. Without JSON the arguments are an empty object.
func (d *directives) parseCall(text string) (rest string, err error) {
	call := chat.ToolCall{Name: text[:strings.IndexAny(text+" ", " {]")], Arguments: "{}"}
	text = strings.TrimLeft(text[len(call.Name):], " ")
	if !strings.HasPrefix(text, "]]") {
		var arguments map[string]json.RawMessage
		decoder := json.NewDecoder(strings.NewReader(text))
		if decoder.Decode(&arguments) != nil {
			return "", invalid("The sandbox directive call=%s needs its arguments as a JSON object.", call.Name)
		}
		call.Arguments = text[:decoder.InputOffset()]
		text = strings.TrimLeft(text[decoder.InputOffset():], " ")
	}
	d.calls = append(d.calls, call)
	rest, ok := strings.CutPrefix(text, "]]")
	if !ok {
		return "", invalid("The sandbox directive call=%s is not closed: it must end with ]].", call.Name)
	}
	return rest, nil
}

// failure returns the fault that was asked for. A status that some fault has becomes that fault. Of the others, a
// 4xx becomes 400 and a 5xx becomes 503.
func (d *directives) failure() *fault.Fault {
	kind := fault.Unavailable
	if d.status < 500 {
		kind = fault.Invalid
	}
	for k := fault.Internal; k <= fault.Unavailable; k++ {
		if k.Status() == d.status && k != fault.KeyDeactivated { // two kinds have status 401; an unknown key is meant
			kind = k
		}
	}
	f := fault.New(kind, "The sandbox was asked to fail with status %d.", d.status).Because(provider.ErrWanted)
	if kind == fault.RateLimited || kind == fault.Unavailable {
		f.After(time.Second)
	}
	return f
}

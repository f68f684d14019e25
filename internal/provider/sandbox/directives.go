package sandbox

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
)

// directives are orders in the last user message, [[sandbox:name=value]], that make failures, waits,
// lengths and calls happen on demand.
type directives struct {
	status            int // fail with this status; 0: do not
	delay, chunkDelay time.Duration
	tokens            int // reply with exactly this many; 0: as it comes
	cut               int // break off after this many chunks; -1: do not
	calls             []chat.ToolCall
}

const mostTokens = 100_000

func invalid(format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, format, args...).At("messages")
}

// parseDirectives takes the directives out of the text.
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

// parseCall reads NAME {json}]]. The JSON may hold brackets of its own, so its end is what counts.
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

// failure is the fault that was asked for. Every status that a fault can have is answered as it is
// written; of the others a 4xx is read as 400 and a 5xx as 503.
func (d *directives) failure() *fault.Fault {
	kind := fault.Unavailable
	if d.status < 500 {
		kind = fault.Invalid
	}
	for k := fault.Internal; k <= fault.Unavailable; k++ {
		if k.Status() == d.status && k != fault.KeyDeactivated { // 401 is a key we do not know
			kind = k
		}
	}
	f := fault.New(kind, "The sandbox was asked to fail with status %d.", d.status).Because(provider.ErrWanted)
	if kind == fault.RateLimited || kind == fault.Unavailable {
		f.After(time.Second)
	}
	return f
}

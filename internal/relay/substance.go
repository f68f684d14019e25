package relay

import (
	"bytes"

	"sluice/internal/provider"
)

// Substance reports whether an event has something to say: a text, reasoning, a call, or that the
// reply is over. A chunk that brings the role alone does not. The error is that of a reply that failed
// or cannot be read. What it looks at is read again when it is handed on, so it is meant for the first
// events of a reply alone.
func Substance(ev *provider.Event) (bool, error) {
	switch ev.Kind {
	case provider.Text, provider.Reasoning:
		return ev.Text != "", nil
	case provider.ToolCall, provider.Finish:
		return true, nil
	case provider.Usage:
		return false, nil
	case provider.Chunk:
		if sh, ok := scanReply(ev.Raw, "delta"); ok {
			return sh.produced() || sh.finish != "", nil
		}
	case provider.Whole:
		// A look at its ends costs a hundredth of reading it, and what is cut or failed shows there.
		if bytes.HasPrefix(ev.Raw, openBrace) && bytes.HasSuffix(bytes.TrimSpace(ev.Raw), closeBrace) &&
			bytes.Contains(ev.Raw, finishKey) && !bytes.Contains(ev.Raw, errorKey) {
			return true, nil
		}
	}
	var d provider.Decoder
	events, err := d.Decode(ev.Raw)
	if err != nil {
		return false, err
	}
	for i := range events {
		if some, _ := Substance(&events[i]); some {
			return true, nil
		}
	}
	return false, nil
}

var (
	openBrace  = []byte("{")
	closeBrace = []byte("}")
	finishKey  = []byte(`"finish_reason"`)
	errorKey   = []byte(`"error"`)
)

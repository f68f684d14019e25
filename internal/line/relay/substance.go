package relay

import (
	"bytes"

	"sluice/internal/upstream/provider"
)

// Substance reports whether an event has something to say: text, reasoning, a call, or the end of the
// reply. A chunk with only a role does not. It returns the error of a reply that failed or cannot be read.
// The caller uses it to decide whether an attempt has answered. Relay reads the event again, so call it for
// the first events of a reply only.
func Substance(ev *provider.Event) (bool, error) {
	switch ev.Kind {
	case provider.Text, provider.Reasoning, provider.Declined:
		return ev.Text != "", nil
	case provider.ToolCall, provider.Finish, provider.Other:
		return true, nil
	case provider.Usage, provider.Tier:
		return false, nil
	case provider.Chunk:
		if sh, ok := scanReply(ev.Raw, "delta"); ok {
			return sh.produced() || sh.finish != "", nil
		}
	case provider.Whole:
		// Looking at both ends costs a hundredth of decoding it, and finds replies that were cut or failed.
		if bytes.HasPrefix(ev.Raw, openBrace) && bytes.HasSuffix(bytes.TrimSpace(ev.Raw), closeBrace) &&
			bytes.Contains(ev.Raw, finishKey) && !bytes.Contains(ev.Raw, errorKey) {
			return true, nil
		}
	}
	// Not the usual shape: decode it. The decoder is a new one, so that the one of the reply later sees the
	// event for the first time.
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

// What Substance looks for in a whole reply.
var (
	openBrace  = []byte("{")
	closeBrace = []byte("}")
	finishKey  = []byte(`"finish_reason"`)
	errorKey   = []byte(`"error"`)
)

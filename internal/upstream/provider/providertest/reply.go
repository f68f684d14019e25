package providertest

import (
	"errors"
	"io"
	"testing"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Reply is a reply that was put together from events. Two replies are the same for a caller if these fields are,
// however the text was cut into events.
type Reply struct {
	Text      string
	Reasoning string
	Calls     []chat.ToolCall
	Finish    chat.Finish
	Usage     *chat.Usage // nil if there were no figures
	Err       error       // why the reply is not complete; nil if it is
}

// Collect reads a stream to its end, and checks the rules that every stream follows. A reply that ends without a
// finish reason broke off. It does not close the stream.
func Collect(t *testing.T, in provider.Stream) Reply {
	t.Helper()
	var r Reply
	var d provider.Decoder
	for {
		ev, err := in.Next()
		if errors.Is(err, io.EOF) {
			if r.Finish == "" {
				r.Err = provider.Cut(io.ErrUnexpectedEOF)
			}
			return r
		}
		if err == nil {
			var typed []provider.Event
			if typed, err = Typed(&d, ev); err == nil {
				for i := range typed {
					r.add(t, &typed[i])
				}
				continue
			}
		}
		r.Err = err
		return r
	}
}

// Typed decodes an event that is still in OpenAI's dialect. Other events are returned as they are.
func Typed(d *provider.Decoder, ev *provider.Event) ([]provider.Event, error) {
	if ev.Kind == provider.Chunk || ev.Kind == provider.Whole {
		return d.Decode(ev.Raw)
	}
	return []provider.Event{*ev}, nil
}

// Expected returns the reply that a script's events make. Scripts are trusted: nothing is checked.
func Expected(events []provider.Event) Reply {
	var r Reply
	for i := range events {
		r.add(nil, &events[i])
	}
	return r
}

// add adds an event to the reply. Unless t is nil, it checks that the event is allowed at this point.
func (r *Reply) add(t *testing.T, ev *provider.Event) {
	if t != nil && r.Finish != "" && ev.Kind != provider.Usage && ev.Kind != provider.Tier {
		t.Errorf("event %+v came after the finish reason", *ev)
	}
	switch ev.Kind {
	case provider.Text:
		r.Text += ev.Text
	case provider.Reasoning:
		r.Reasoning += ev.Text
	case provider.Finish:
		r.Finish = ev.Finish
	case provider.Usage:
		u := ev.Usage
		r.Usage = &u
	case provider.Tier:
	// Only the first piece of a call has its id and name; all pieces have the index (docs/api.md#stream-chunk).
	case provider.ToolCall:
		p := ev.Tool
		switch {
		case p.Index == len(r.Calls):
			r.Calls = append(r.Calls, chat.ToolCall{ID: p.ID, Name: p.Name})
		case t != nil && (p.Index < 0 || p.Index > len(r.Calls)):
			t.Errorf("a call has index %d, want at most %d", p.Index, len(r.Calls))
			return
		case t != nil && (p.ID != "" || p.Name != ""):
			t.Errorf("a later piece of a call is %+v, want neither id nor name", p)
		}
		r.Calls[p.Index].Arguments += p.Arguments
	default:
		if t != nil {
			t.Errorf("event %+v is of an unknown kind", *ev)
		}
	}
}

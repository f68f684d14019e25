package messages

import (
	"bytes"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
)

// relayed is the state of a reply whose upstream speaks the dialect. Its events go out as they are, but for the id and
// the model of the message, which are ours. The event that makes a reply complete waits for the end.
type relayed struct {
	last []byte // what End or Body writes: the message_delta, or the whole message
	at   int    // where the JSON of the last event stands in it
}

// end appends what makes the reply complete. Its usage tells what the call costs if the caller wants that, and never what it
// costs the operator, which some upstreams tell.
func (r *relayed) end(b []byte, o *relay.Outcome) []byte {
	raw := r.last[r.at:]
	usage, costs := scanCosts(raw)
	b = append(b, r.last[:r.at]...)
	switch {
	case !o.TellCost && !costs, len(raw) == 0:
		return append(b, raw...)
	case usage.to == 0: // the upstream gives no figures
		end := bytes.LastIndexByte(raw, '}')
		b = append(append(b, raw[:end]...), `,"usage":`...)
		return append(o.AppendCost(appendUsage(b, o.Usage, "")), raw[end:]...)
	}
	b = append(b, raw[:usage.from]...)
	if costs {
		b = append(b, chat.Edited(raw[usage.from:usage.to], func(key string, v chat.Value) []byte {
			if chat.IsCost(key) {
				return nil
			}
			return v.Raw()
		})...)
	} else {
		b = append(b, raw[usage.from:usage.to]...)
	}
	return append(o.AppendCost(b), raw[usage.to:]...)
}

// scanCosts returns where the usage stands in an event; zero if it has none. It reports whether the usage says what the call
// costs at the upstream.
func scanCosts(raw []byte) (usage place, costs bool) {
	c := jsonscan.Cursor{Body: raw}
	c.Members(func(key []byte) bool {
		if string(key) != "usage" || c.Next() != '{' {
			return c.Skip(maxDepth)
		}
		from := c.Pos
		ok := c.Members(func(key []byte) bool {
			costs = costs || chat.IsCost(string(key))
			return c.Skip(maxDepth)
		})
		usage = place{from, c.Pos}
		return ok
	})
	return usage, costs
}

// relay hands on what the upstream said. raw has an event on each line; see provider.Event.
//
// message_delta has the stop reason and the usage. It waits because the call is settled before the
// reply looks complete to the caller.
func (w *Writer) relay(b, raw []byte) []byte {
	for line := range bytes.SplitSeq(raw, []byte{'\n'}) {
		kind, at, ok := scanEvent(line)
		switch {
		case !ok: // it cannot be read, and no client would either
		case !w.stream:
			if kind == "message" {
				w.native.last, w.native.at = w.rename(w.native.last[:0], line, at), 0
			}
		case kind == "message_start":
			if !w.begun { // a second one would begin another message
				w.begun = true
				b = append(b, "event: message_start\ndata: "...)
				b = append(w.rename(b, line, at), "\n\n"...)
			}
		case kind == "message_delta":
			w.native.last = appendEvent(w.native.last, kind, line)
			w.native.at = len(w.native.last) - len(line) - len("\n\n")
		case kind == "message_stop", kind == "error", kind == "ping": // End and Fault write the first two, KeepAlive the last
		default:
			b = appendEvent(b, kind, line)
		}
	}
	return b
}

// speaks reports whether the upstream's words begin a reply of the form that the caller wants. Some upstreams stream,
// or do not, whatever they are asked for; then the reply is translated.
func (w *Writer) speaks(raw []byte) bool {
	line, _, _ := bytes.Cut(raw, []byte{'\n'})
	kind, _, ok := scanEvent(line)
	if w.stream {
		return ok && kind == "message_start"
	}
	return ok && kind == "message"
}

// appendEvent appends an event of the stream. raw is one line of JSON.
func appendEvent(b []byte, kind string, raw []byte) []byte {
	b = append(append(append(b, "event: "...), kind...), "\ndata: "...)
	return append(append(b, raw...), "\n\n"...)
}

// place is where a value stands in an event: raw[from:to].
type place struct{ from, to int }

// named are the places of the id and the model in a message; zero if they are not there.
type named struct{ id, model place }

// maxDepth bounds the nesting of an upstream's event.
const maxDepth = 128

// scanEvent finds the type of an event, and the id and the model of the message that it holds or is. It reports false if
// it cannot: an event that the adapter has decoded is nearly always plain.
// In message_start the message is a member; without a stream the event itself is the message.
func scanEvent(raw []byte) (kind string, at named, ok bool) {
	c := jsonscan.Cursor{Body: raw}
	nested := false
	ok = c.Members(func(key []byte) bool {
		switch string(key) {
		case "type":
			from, to, ok := c.Text()
			if ok {
				kind = string(raw[from:to])
			}
			return ok && isPlain(kind)
		case "message":
			if c.Next() == '{' {
				nested, at = true, named{}
				return c.Members(func(key []byte) bool { return scanName(&c, key, &at) })
			}
			return c.Skip(maxDepth)
		}
		if nested {
			return c.Skip(maxDepth)
		}
		return scanName(&c, key, &at)
	})
	return kind, at, ok && c.End() && kind != ""
}

// scanName reads a member of a message.
func scanName(c *jsonscan.Cursor, key []byte, at *named) bool {
	c.Next()
	from := c.Pos
	if !c.Skip(maxDepth) {
		return false
	}
	switch string(key) {
	case "id":
		at.id = place{from, c.Pos}
	case "model":
		at.model = place{from, c.Pos}
	}
	return true
}

// rename appends an event with our id and the catalog's name of the model. The upstream's id stays if the upstream holds
// the conversation and knows it by that id.
// Everything around the two values is copied byte by byte. A missing value has the place 0, before
// all others, and nothing is written for it.
func (w *Writer) rename(b, raw []byte, at named) []byte {
	id := append(append([]byte(`"msg_`), w.head.RequestID...), '"')
	if w.req.threads {
		id = raw[at.id.from:at.id.to]
	}
	model := jsonscan.AppendQuoted(nil, w.head.Model)
	first, second := at.id, at.model
	if first.from > second.from {
		first, second, id, model = second, first, model, id
	}
	b = append(append(b, raw[:first.from]...), orNothing(first, id)...)
	b = append(append(b, raw[first.to:second.from]...), orNothing(second, model)...)
	return append(b, raw[second.to:]...)
}

// Threaded implements relay.Threader.
func (w *Writer) Threaded() { w.req.threads = true }

// orNothing returns the text for a place, or nothing for a place that does not exist.
func orNothing(at place, text []byte) []byte {
	if at.to == 0 {
		return nil
	}
	return text
}

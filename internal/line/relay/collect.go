package relay

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strconv"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// jsonType is shared by all replies: a literal would be an allocation for each.
var jsonType = []string{"application/json"}

// collector sends a reply in one piece. Nothing is sent before it is complete, so every failure is an
// ordinary error response. It also takes a reply that arrives in pieces, from an upstream that streams or
// from a conversation with tools, and puts it together.
//
// The usual reply comes in one piece, and its choices go out as they are; texts is used for all others.
//
// It has no lock: nothing is written before Finish, so no keep-alive comment can come between.
type collector struct {
	reply
	w       http.ResponseWriter
	spliced []byte // the upstream's reply, if its choices can go out as they are; valid until its stream is closed
	shape   shape  // of spliced
	texts   []texts
	first   [1]texts                        // backing array of texts for the usual single choice
	size    int                             // bytes of texts that were put together
	scrap   []byte                          // what a dialect would have streamed
	sign    func(*[sha256.Size]byte) string // see Options
}

// newCollector returns the sender of a reply in one piece.
func newCollector(w http.ResponseWriter, h Head, opts *Options) *collector {
	c := &collector{reply: newReply(h, opts), w: w, sign: opts.Sign}
	c.texts = c.first[:]
	if c.n > 1 {
		c.texts = make([]texts, c.n)
	}
	return c
}

// Introduce implements Sender.
func (c *collector) Introduce(answers func(http.Header) string) { c.head.Model = answers(c.w.Header()) }

// Relay implements Sender. It sends nothing; Finish does.
func (c *collector) Relay(ctx context.Context, in provider.Stream) *Outcome {
	for {
		ev, err := in.Next()
		if err == nil {
			if err = c.take(ev); err != nil {
				err = told(in, err)
			}
		}
		if c.size > provider.MaxText {
			err = provider.TooLong()
		}
		if long := c.tooLong(); long != nil {
			err = long
		}
		if err != nil {
			return c.end(ctx, err)
		}
	}
}

// Fail implements Sender.
func (c *collector) Fail(ctx context.Context, err error) *Outcome { return c.end(ctx, err) }

// end decides what became of the reply when its upstream ended with err, which may be io.EOF. A reply
// whose choices all have their finish reason is complete, however the upstream ended. One that produced
// content is not empty although the caller gets none of it: the upstream has worked for it.
func (c *collector) end(ctx context.Context, err error) *Outcome {
	if ctx.Err() != nil {
		err = Ended(ctx)
	}
	switch {
	case c.complete():
		c.outcome.Complete, c.outcome.Begun = true, true
	case errors.Is(err, ErrGone):
		c.outcome.Err = err
	case c.outcome.FirstContent.IsZero():
		c.outcome = Outcome{Err: fault.From(failure(err))}
	default:
		c.outcome.Err = c.failure(err)
	}
	return &c.outcome
}

// Finish implements Sender.
// With a Content-Length the caller can tell a truncated reply from a complete one.
func (c *collector) Finish() error {
	if c.outcome.Err != nil {
		if c.sign != nil {
			SetReceipt(c.w.Header(), c.sign(nil))
		}
		return c.outcome.Err
	}
	pooled := buffers.Get().(*[]byte)
	body := c.appendBody(*pooled)
	defer func() { putBuffer(pooled, body) }()
	header := c.w.Header()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	if c.sign != nil {
		sum := sha256.Sum256(body)
		SetReceipt(header, c.sign(&sum))
	}
	completing(c.w)
	if _, err := c.w.Write(body); err != nil {
		return errors.Join(ErrGone, err)
	}
	return nil
}

// SetReceipt sets the header that has the receipt of a reply, unless there is none.
func SetReceipt(h http.Header, signed string) {
	if signed != "" {
		h["X-Sluice-Receipt"] = []string{signed}
	}
}

// Close implements Sender. A collector holds nothing.
func (c *collector) Close() {}

// texts holds the strings of one choice, as the insides of JSON strings.
type texts struct {
	content, reasoning, refusal []byte
	rest                        *provider.Rest
}

// take adds an event to the reply.
func (c *collector) take(ev *provider.Event) error {
	switch ev.Kind {
	case provider.Whole:
		if c.spoken == nil && c.splice(ev.Raw) || c.spoken != nil && c.retell(ev.Raw) {
			return nil
		}
	case provider.Chunk: // the upstream streams although the request does not want it to
	default:
		c.event(ev)
		return nil
	}
	events, err := c.decoder.Decode(ev.Raw)
	if err != nil {
		return err
	}
	for i := range events {
		c.event(&events[i])
	}
	return nil
}

// splice keeps the choices of a whole reply as they are. It reports false if the reply needs the decoder:
// several choices, tool calls, or a shape that is not usual.
// A message whose content is null and that has neither a refusal nor anything else goes to the
// decoder as well, which makes it a string.
func (c *collector) splice(raw []byte) bool {
	sh, ok := scanReply(raw, "message")
	if !ok || !sh.one || sh.index != 0 || c.n != 1 || !sh.role || sh.finish == "" || sh.finish == chat.FinishToolCalls ||
		!sh.hasContent || sh.content.from == 0 && sh.refusal.empty() && !sh.others {
		return false
	}
	if u, ok := scanUsage(raw[sh.usage.from:sh.usage.to]); ok {
		c.usage(u)
	}
	c.tier(sh.tier)
	if sh.produced() {
		c.content()
	}
	// The texts are kept without a copy: a whole reply does not change until its stream is closed, and that
	// is after the call was settled.
	c.outcome.text.only(raw[sh.content.from:sh.content.to])
	c.outcome.text.add(raw[sh.refusal.from:sh.refusal.to])
	c.outcome.reasoning.only(raw[sh.reasoning.from:sh.reasoning.to])
	c.finish(&c.choices[0], sh.finish)
	c.spliced, c.shape = raw, sh // a whole reply stays as it is until its stream is closed
	return true
}

// event adds an event to its choice.
func (c *collector) event(ev *provider.Event) {
	switch ev.Kind {
	case provider.Usage:
		c.usage(ev.Usage)
		return
	case provider.Tier:
		c.tier(ev.Text)
		return
	}
	ch := c.choice(ev.Choice)
	if ch == nil || ch.finished {
		return
	}
	if c.spoken != nil {
		c.scrap = c.speak(c.scrap[:0], ev, ch)
		return
	}
	ch.begun = true
	t := &c.texts[ev.Choice]
	switch ev.Kind {
	case provider.Text:
		t.content = c.text(t.content, ev.Text, &c.outcome.text)
	case provider.Declined:
		t.refusal = c.text(t.refusal, ev.Text, &c.outcome.text)
	case provider.Reasoning:
		t.reasoning = c.text(t.reasoning, ev.Text, &c.outcome.reasoning)
	case provider.ToolCall:
		p, ok := c.piece(ev.Choice, ch, ev.Tool)
		if !ok {
			return
		}
		c.content()
		ch.calls[p.Index].arguments = c.text(ch.calls[p.Index].arguments, p.Arguments, &c.outcome.text)
	case provider.Finish:
		t.rest = ev.Rest
		c.finish(ch, ev.Finish)
	}
}

// text appends s, as the inside of a JSON string, to a text and to what was produced. AppendQuoted adds
// quotes; the copy removes them, so that pieces can follow one another.
func (c *collector) text(to []byte, s string, all *produced) []byte {
	if s == "" {
		return to
	}
	c.content()
	// The text is quoted in place, at the end of what is there.
	from := len(to)
	to = jsonscan.AppendQuoted(to, s)
	inside := to[from+1 : len(to)-1]
	c.size += len(inside)
	all.add(inside)
	copy(to[from:], inside)
	return to[:from+len(inside)]
}

// appendBody appends the whole reply.
func (c *collector) appendBody(b []byte) []byte {
	if c.spoken != nil {
		return c.spoken.dialect.Body(b, &c.outcome)
	}
	b = appendHead(b, c.head, "chat.completion")
	if c.spliced != nil { // the usual case: the upstream's own bytes
		b = c.appendSpliced(b)
	} else {
		b = append(b, '[')
		for i := range c.choices {
			if i > 0 {
				b = append(b, ',')
			}
			b = c.appendChoice(b, i)
		}
		b = append(b, ']')
	}
	b = append(b, `,"usage":`...)
	b = c.outcome.AppendCost(appendUsage(b, c.outcome.Usage))
	b = append(b, `,"system_fingerprint":`...)
	return append(c.appendFingerprint(b), '}')
}

// appendSpliced appends the upstream's choices. What some upstreams leave out is added: clients that check
// replies against OpenAI's description want it, if only as null.
func (c *collector) appendSpliced(b []byte) []byte {
	raw, sh := c.spliced, &c.shape
	from := sh.choices.from
	if !sh.hasRefusal {
		b = append(append(b, raw[from:sh.partEnd]...), `,"refusal":null`...)
		from = sh.partEnd
	}
	if !sh.hasLogprobs {
		b = append(append(b, raw[from:sh.choiceEnd]...), `,"logprobs":null`...)
		from = sh.choiceEnd
	}
	return append(b, raw[from:sh.choices.to]...)
}

// appendFingerprint appends the upstream's fingerprint, or null.
func (c *collector) appendFingerprint(b []byte) []byte {
	switch f := c.shape.fingerprint; {
	case c.spliced != nil && f.to > 0:
		return append(append(append(b, '"'), c.spliced[f.from:f.to]...), '"')
	case c.decoder.Fingerprint != nil:
		return append(b, c.decoder.Fingerprint...)
	}
	return append(b, `null`...)
}

// appendChoice appends one choice that was put together from events. A message with calls or a refusal and no
// text has null as its content, as OpenAI's have.
//
// The order of the members is that of OpenAI's replies.
func (c *collector) appendChoice(b []byte, i int) []byte {
	ch, t := &c.choices[i], &c.texts[i]
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(i), 10)
	b = append(b, `,"message":{"role":"assistant","content":`...)
	if len(t.content) == 0 && (len(ch.calls) > 0 || len(t.refusal) > 0) {
		b = append(b, `null`...)
	} else {
		b = append(append(append(b, '"'), t.content...), '"')
	}
	b = append(b, `,"refusal":`...)
	if len(t.refusal) > 0 {
		b = append(append(append(b, '"'), t.refusal...), '"')
	} else {
		b = append(b, `null`...)
	}
	if len(t.reasoning) > 0 {
		b = append(append(append(b, `,"reasoning_content":"`...), t.reasoning...), '"')
	}
	for k := range ch.calls {
		if k == 0 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendCall(b, &ch.calls[k])
		if k == len(ch.calls)-1 {
			b = append(b, ']')
		}
	}
	var rest provider.Rest
	if t.rest != nil {
		rest = *t.rest
	}
	b = appendMember(b, `,"annotations":`, rest.Annotations, "")
	b = appendMember(b, `,"audio":`, rest.Audio, "")
	b = appendMember(b, `},"logprobs":`, rest.Logprobs, `null`)
	b = append(b, `,"finish_reason":"`...)
	b = append(b, ch.finish...)
	return append(b, `"}`...)
}

// appendMember appends a key with its value, or with the value of one that is absent. Without either it
// appends nothing.
func appendMember(b []byte, key string, value []byte, absent string) []byte {
	if len(value) == 0 {
		if absent == "" {
			return b
		}
		value = []byte(absent)
	}
	return append(append(b, key...), value...)
}

// appendCall appends a tool call. Clients parse the arguments of a function, so none are {}; the input of a
// custom tool is plain text and may be empty.
func appendCall(b []byte, k *call) []byte {
	b = append(b, `{"id":`...)
	b = jsonscan.AppendQuoted(b, k.id)
	b = append(appendCalled(b, k.custom, k.name), '"')
	if len(k.arguments) == 0 && !k.custom {
		b = append(b, `{}`...)
	}
	b = append(b, k.arguments...)
	return append(b, `"}}`...)
}

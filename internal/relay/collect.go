package relay

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/jsonscan"
	"sluice/internal/provider"
)

var jsonType = []string{"application/json"}

// Collect hands the reply on in one piece. Nothing is sent before it is complete, so every failure is
// a plain fault, or ErrGone.
func Collect(ctx context.Context, w http.ResponseWriter, in provider.Stream, h Head, opts Options) error {
	c := &collector{reply: newReply(h, opts.N)}
	c.texts = c.first[:]
	if c.n > 1 {
		c.texts = make([]texts, c.n)
	}
	for {
		ev, err := in.Next()
		if err == nil {
			err = c.take(ev)
		}
		if err == nil {
			continue
		}
		if !c.complete() {
			if ctx.Err() != nil {
				c.outcome.Err = ErrGone
				opts.Settle(c.outcome)
				return errors.Join(ErrGone, context.Cause(ctx))
			}
			f := fault.From(failure(err))
			if !c.outcome.FirstContent.IsZero() { // the upstream has worked for it, though the caller gets nothing
				c.outcome.Err = f
				opts.Settle(c.outcome)
			}
			return f
		}
		break
	}
	c.outcome.Complete, c.outcome.Begun = true, true
	opts.Settle(c.outcome)

	header := w.Header()
	if opts.Answers != nil {
		c.head.Model = opts.Answers(header)
	}
	pooled := buffers.Get().(*[]byte)
	body := c.appendBody(*pooled)
	defer func() { putBuffer(pooled, body) }()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	if _, err := w.Write(body); err != nil {
		return errors.Join(ErrGone, err)
	}
	return nil
}

// collector puts a whole reply together.
type collector struct {
	reply
	spliced []byte // the upstream's choices, where they can go out as they are
	texts   []texts
	first   [1]texts // room for them, where there is one choice
}

// texts are the strings of one choice, as the insides of JSON strings.
type texts struct{ content, reasoning []byte }

func (c *collector) take(ev *provider.Event) error {
	switch ev.Kind {
	case provider.Whole:
		if c.splice(ev.Raw) {
			return nil
		}
	case provider.Chunk: // an upstream that streams although it was not asked to
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

// splice keeps the choices of a whole reply of the usual shape as they are.
func (c *collector) splice(raw []byte) bool {
	sh, ok := scanReply(raw, "message")
	if !ok || !sh.one || sh.index != 0 || c.n != 1 || !sh.role || sh.finish == "" || sh.finish == chat.FinishToolCalls || sh.content.from == 0 {
		return false
	}
	if u, ok := scanUsage(raw[sh.usage.from:sh.usage.to]); ok {
		c.usage(u)
	}
	if sh.produced() {
		c.content()
	}
	c.outcome.text.only(raw[sh.content.from:sh.content.to])
	c.outcome.text.add(raw[sh.refusal.from:sh.refusal.to])
	c.outcome.reasoning.only(raw[sh.reasoning.from:sh.reasoning.to])
	c.finish(&c.choices[0], sh.finish)
	c.spliced = raw[sh.choices.from:sh.choices.to] // a whole reply stays as it is until its stream is closed
	return true
}

// event adds an event to its choice.
func (c *collector) event(ev *provider.Event) {
	if ev.Kind == provider.Usage {
		c.usage(ev.Usage)
		return
	}
	ch := c.choice(ev.Choice)
	if ch == nil || ch.finished {
		return
	}
	t := &c.texts[ev.Choice]
	switch ev.Kind {
	case provider.Text:
		t.content = c.text(t.content, ev.Text, &c.outcome.text)
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
		c.finish(ch, ev.Finish)
	}
}

// text appends the inside of s as a JSON string to a text and to what was produced.
func (c *collector) text(to []byte, s string, all *produced) []byte {
	if s == "" {
		return to
	}
	c.content()
	from := len(to)
	to = jsonscan.AppendQuoted(to, s)
	inside := to[from+1 : len(to)-1]
	all.add(inside)
	copy(to[from:], inside)
	return to[:from+len(inside)]
}

// appendBody appends the whole chat.completion.
func (c *collector) appendBody(b []byte) []byte {
	b = appendHead(b, c.head, "chat.completion")
	if c.spliced != nil {
		b = append(b, c.spliced...)
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
	b = appendUsage(b, c.outcome.Usage)
	return append(b, '}')
}

func (c *collector) appendChoice(b []byte, i int) []byte {
	ch, t := &c.choices[i], &c.texts[i]
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(i), 10)
	b = append(b, `,"message":{"role":"assistant","content":`...)
	if len(t.content) == 0 && len(ch.calls) > 0 {
		b = append(b, `null`...)
	} else {
		b = append(append(append(b, '"'), t.content...), '"')
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
	b = append(b, `},"finish_reason":"`...)
	b = append(b, ch.finish...)
	return append(b, `"}`...)
}

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

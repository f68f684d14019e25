package chat

// AppendSample appends about most bytes of the text to b, half from its beginning and half from its end, in lower
// case. Escapes stay as the caller wrote them: the sample is for looking for words. The router uses it,
// which must not spend more on a long prompt than on a short one.
func (c Content) AppendSample(b []byte, most int) []byte {
	sample := b[len(b):]
	// Instructions are at the beginning of a prompt or at its end, seldom in the middle.
	half := most / 2
	take := func(raw []byte) {
		if len(raw) > most {
			sample = append(append(append(sample, raw[:half]...), ' '), raw[len(raw)-half:]...)
			return
		}
		sample = append(sample, raw...)
	}
	if c.parts == nil {
		take(c.raw)
	}
	for _, p := range c.parts {
		if len(sample) < most {
			take(p.raw)
		}
	}
	for i, c := range sample {
		if 'A' <= c && c <= 'Z' {
			sample[i] = c + ('a' - 'A')
		}
	}
	return append(b, sample...) // where it already is, if there was room
}

// Ends returns the first and the last half of most bytes of a part of the content, as the caller wrote them, and whether there
// is such a part. Tail is empty if head is all of it. The numbers begin with 0. Nothing is copied.
func (c Content) Ends(number, most int) (head, tail []byte, ok bool) {
	raw := c.raw
	switch {
	case c.parts == nil && number > 0, c.parts != nil && number >= len(c.parts):
		return nil, nil, false
	case c.parts != nil:
		raw = c.parts[number].raw
	}
	if len(raw) <= most {
		return raw, nil, true
	}
	return raw[:most/2], raw[len(raw)-most/2:], true
}

// Size returns about how many bytes the texts of the content have, as the caller wrote them.
func (c Content) Size() int {
	n := len(c.raw)
	for i := range c.parts {
		n += len(c.parts[i].raw)
	}
	return n
}

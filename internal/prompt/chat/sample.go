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

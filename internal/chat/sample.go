package chat

// Sample returns about most bytes of the text, half from its beginning and half from its end, in lower
// case. Escapes stay as the caller wrote them: the sample is for looking for words. The router uses it,
// which must not spend more on a long prompt than on a short one. The result is the caller's to keep.
func (c Content) Sample(most int) []byte {
	var sample []byte
	// Instructions stand at the beginning of a prompt or at its end, seldom in the middle.
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
	for i, b := range sample {
		if 'A' <= b && b <= 'Z' {
			sample[i] = b + ('a' - 'A')
		}
	}
	return sample
}

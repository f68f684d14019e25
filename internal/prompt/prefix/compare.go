package prefix

import "encoding/binary"

// Change is where a prompt begins to differ from an earlier one.
type Change struct {
	Part Part
	// Message is the number of the message that has changed, from 1 on after the system prompt; 0 for other parts. To is that of the
	// last one that may be the first to differ: of long conversations not every message has a hash.
	Message, To int
	// From and Until are offsets in bytes, as JSON has them, between which the first difference is. Until is 0 if only From is known: the
	// difference is somewhere behind. Both are 0 for messages beyond the first.
	From, Until int
	// Of is the size of the part in the later prompt.
	Of int
}

// print is a decoded Print.
type print struct {
	sizes [3]int // of tools, system prompt and first message
	count int
	parts [3][]uint16 // of each: the offsets, then the end
	ends  map[int]uint16
}

// mostMessages bounds what a damaged print can make of the number of messages.
const mostMessages = 1 << 20

// parse decodes a Print. It returns false for one that is damaged, or of another version.
func parse(b []byte) (*print, bool) {
	if len(b) == 0 || len(b) > Max || b[0] != version {
		return nil, false
	}
	p, b := &print{}, b[1:]
	for _, to := range [...]*int{&p.sizes[0], &p.sizes[1], &p.sizes[2], &p.count} {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > 1<<40 {
			return nil, false
		}
		*to, b = int(n), b[used:]
	}
	if p.count > mostMessages {
		return nil, false
	}
	next := func() (n uint16, ok bool) {
		if len(b) < 2 {
			return 0, false
		}
		n, b = binary.LittleEndian.Uint16(b), b[2:]
		return n, true
	}
	for i, most := range [...]int{gridOfPart, gridOfPart, gridOfMessage} {
		if i == int(Messages) && p.count == 0 {
			break
		}
		for k := 0; ; k++ {
			hash, ok := next()
			if !ok {
				return nil, false
			}
			p.parts[i] = append(p.parts[i], hash)
			if k == most || grid(k) > p.sizes[i] {
				break
			}
		}
	}
	p.ends = map[int]uint16{}
	for _, n := range ends(nil, p.count) {
		hash, ok := next()
		if !ok {
			return nil, false
		}
		p.ends[n] = hash
	}
	return p, true
}

// Compare says where a prompt begins to differ from an earlier one of the same conversation; nil if it begins with all of the
// earlier one, as far as the hashes tell, or if it is a beginning of it. It returns false if one of the prints cannot be read.
func Compare(before, now []byte) (*Change, bool) {
	a, ok := parse(before)
	b, also := parse(now)
	if !ok || !also {
		return nil, false
	}
	for i := range a.parts {
		part := Part(i)
		if part == Messages && (a.count == 0 || b.count == 0) {
			return nil, true
		}
		if c := a.part(b, part); c != nil {
			return c, true
		}
	}
	return a.messages(b), true
}

// part compares one part; nil: it is the same.
func (p *print) part(now *print, part Part) *Change {
	was, is := p.parts[part], now.parts[part]
	if p.sizes[part] == now.sizes[part] && was[len(was)-1] == is[len(is)-1] {
		return nil
	}
	c := &Change{Part: part, Of: now.sizes[part]}
	if part == Messages {
		c.Message, c.To = 1, 1
	}
	for i := range min(len(was), len(is)) - 1 {
		if was[i] != is[i] {
			c.Until = grid(i)
			return c
		}
		c.From = grid(i)
	}
	if shorter := min(p.sizes[part], now.sizes[part]); p.sizes[part] != now.sizes[part] {
		c.Until = shorter // the shorter one ends there, so the other differs there at the latest
		if c.Until == c.From {
			c.Until = 0
		}
	}
	return c
}

// messages compares the messages beyond the first; nil: they are the same.
func (p *print) messages(now *print) *Change {
	same := 1
	for n := 2; n <= min(p.count, now.count); n++ {
		was, had := p.ends[n]
		is, has := now.ends[n]
		if !had || !has {
			continue
		}
		if was != is {
			return &Change{Part: Messages, Message: same + 1, To: n}
		}
		same = n
	}
	return nil
}

// Short reports whether a prompt has one message beside those of the system, so that it opens a conversation.
func Short(encoded []byte) bool {
	p, ok := parse(encoded)
	return ok && p.count <= 1
}

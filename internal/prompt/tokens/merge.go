package tokens

// part is a piece of a word while it is merged: the bytes from its index to next.
// The parts are a doubly linked list inside a slice: the index of a part is where its bytes begin
// in the word.
type part struct {
	prev, next int32
	// merged is the number of the token that this part and the one after it make up, or none.
	merged uint32
}

// candidate is a merge that is possible: the number of the token in the upper half, and the index of the
// first part in the lower one. The smallest is the one that comes first: the lowest number, and of several
// the leftmost.
type candidate uint64

// merger splits words into tokens. Its slices are used again for the next word.
type merger struct {
	vocab *vocab
	parts []part
	heap  []candidate
}

// tokens calls yield with the end of each token of a word.
func (m *merger) tokens(word string, yield func(end int)) {
	if m.vocab.number(word) != none { // most words are tokens
		yield(len(word))
		return
	}
	m.split(word, yield)
}

// split calls yield with the end of each token of a word that is not a token itself. It begins with the
// single bytes, and joins the two neighbors that make up the token with the lowest number until no two
// neighbors make up a token. With a heap that takes n log n steps.
//
// Without the heap, a word of a million letters would take a million squared steps, and callers
// choose the words.
func (m *merger) split(word string, yield func(end int)) {
	m.parts, m.heap = m.parts[:0], m.heap[:0]
	for i := range len(word) + 1 {
		m.parts = append(m.parts, part{int32(i - 1), int32(i + 1), none})
	}
	m.parts[len(word)].next = -1
	for i := range len(word) {
		m.look(word, int32(i))
	}
	for len(m.heap) > 0 {
		c := m.pop()
		i := int32(c & (1<<32 - 1))
		// A candidate whose parts were merged with others meanwhile is out of date.
		if m.parts[i].merged != uint32(c>>32) {
			continue
		}
		gone := m.parts[i].next
		after := m.parts[gone].next
		m.parts[gone].merged = none
		m.parts[i].next = after
		m.parts[after].prev = i
		m.look(word, i)
		if prev := m.parts[i].prev; prev >= 0 {
			m.look(word, prev)
		}
	}
	for i := m.parts[0].next; i >= 0; i = m.parts[i].next {
		yield(int(i))
	}
}

// look finds out whether the part at i and the next one make up a token, and notes it.
func (m *merger) look(word string, i int32) {
	p := &m.parts[i]
	p.merged = none
	if p.next < 0 || m.parts[p.next].next < 0 {
		return // it is the last one
	}
	if p.merged = m.vocab.number(word[i:m.parts[p.next].next]); p.merged != none {
		m.push(candidate(p.merged)<<32 | candidate(i))
	}
}

// push adds a candidate to the heap. container/heap would allocate for each.
func (m *merger) push(c candidate) {
	m.heap = append(m.heap, c)
	for i := len(m.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if m.heap[up] <= m.heap[i] {
			return
		}
		m.heap[up], m.heap[i] = m.heap[i], m.heap[up]
		i = up
	}
}

// pop removes the smallest candidate and returns it.
func (m *merger) pop() candidate {
	h := m.heap
	top := h[0]
	last := len(h) - 1
	h[0], h = h[last], h[:last]
	m.heap = h
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(h) {
			return top
		}
		if down+1 < len(h) && h[down+1] < h[down] {
			down++
		}
		if h[i] <= h[down] {
			return top
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}

// Package prefix makes fingerprints of prompts, and says where two prompts begin to differ.
//
// Vendors keep the beginning of a prompt in a cache: tools, system prompt, messages. A Print has hashes of that beginning up to
// some places: the ends of parts, and some offsets inside long ones. Two prompts have the same hash at a place if all before it is the
// same, so the first place at which the hashes differ says where the change is. A Print has less than Max bytes, and nothing of
// the text: hashes are keyed and cut to two bytes.
//
// What follows for a cache is said elsewhere; see package misses.
package prefix

import (
	"encoding/binary"
	"math/bits"
)

// Key is what hashes are made under. It is the same on all nodes of a service and after a restart, so that prints of different
// calls can be compared.
type Key [8]uint64

// NewKey returns the key that a secret of at least 32 bytes stands for.
func NewKey(secret []byte) *Key {
	k := &Key{}
	for i := range k {
		// Odd words and different halves: none of them is zero, which would let a product forget what came before.
		k[i] = binary.LittleEndian.Uint64(secret[8*(i%4):])*(2*uint64(i)+0x9e3779b97f4a7c15) | 1
	}
	return k
}

// Name returns a number that stands for texts, such as an account and how its conversation begins.
func (k *Key) Name(texts ...[]byte) uint64 {
	hash := k[3]
	for _, t := range texts {
		hash = k.sum(hash, t)
	}
	return hash
}

// sum returns the hash of what came before, which is before, and of b. It is one pass of folded multiplications in four lanes, which
// reads about 10 bytes in a nanosecond; SHA-256 reads 1 or 2.
func (k *Key) sum(before uint64, b []byte) uint64 {
	l0, l1, l2, l3 := before^k[0], k[1], k[2], k[3]
	size := uint64(len(b))
	k4, k5, k6, k7 := k[4], k[5], k[6], k[7]
	for len(b) >= 64 {
		w := (*[64]byte)(b) // one check of the bounds for all
		l0 = fold(word(w[0:])^k4, word(w[8:])^l0)
		l1 = fold(word(w[16:])^k5, word(w[24:])^l1)
		l2 = fold(word(w[32:])^k6, word(w[40:])^l2)
		l3 = fold(word(w[48:])^k7, word(w[56:])^l3)
		b = b[64:]
	}
	for len(b) >= 16 {
		l0 = fold(word(b[0:])^k[4], word(b[8:])^l0)
		b = b[16:]
	}
	if len(b) > 0 {
		var rest [16]byte
		copy(rest[:], b)
		l0 = fold(word(rest[0:])^k[4], word(rest[8:])^l0)
	}
	return fold(fold(l0^size^k[5], l1^k[6])^l2^k[7], l3^k[4])
}

// fold multiplies two numbers and folds the product.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// Part is a part of a prompt, in the order in which vendors keep them.
type Part uint8

// The parts of a prompt.
const (
	Tools  Part = iota
	System      // what stands before the first message that is not the system's
	Messages
)

const (
	// Max is the size of an encoded Print at most, in bytes.
	Max = 200

	version = 2 // 1 had the arguments of tool calls unescaped
	// firstGrid is the first offset inside a part that has a hash; the next ones are 1.5, 2, 3, 4, 6, … times that.
	firstGrid = 256
	// gridOfPart is how many offsets tools and the system prompt have at most, the last at 48 KiB; gridOfMessage those of the
	// first message, the last at 3 KiB.
	gridOfPart, gridOfMessage = 16, 8
	// mostEnds is how many messages have a hash at their end at most, evenly spread, beside the lastEnds last ones.
	mostEnds, lastEnds = 16, 6
)

// grid returns offset i of those inside a part.
func grid(i int) int {
	if i%2 == 0 {
		return firstGrid << (i / 2)
	}
	return firstGrid << (i / 2) * 3 / 2
}

// Printer makes the Print of one prompt: its parts in order, each begun with Begin. It needs no memory of its own, and no writing fails.
type Printer struct {
	key  *Key
	hash uint64 // of all before
	part Part
	at   int // offset in the part or message
	next int // number of the next offset that has a hash

	places [2]places // of tools and system prompt
	first  places    // of the first message
	count  int       // messages
	step   int       // ends[i] is that of message (i+1)*step
	ends   [mostEnds]uint16
	kept   int
	last   [lastEnds]uint16 // of the last messages; that of message n is at n%lastEnds
}

// places are the hashes of a part.
type places struct {
	size   int
	hashes [gridOfPart]uint16
	end    uint16
}

// Reset makes the printer ready for a prompt.
func (p *Printer) Reset(key *Key) { *p = Printer{key: key, hash: key[0], step: 1} }

// Begin begins a part, or the next message, and ends the one before.
func (p *Printer) Begin(part Part) {
	p.end()
	p.part, p.at, p.next = part, 0, 0
	if part == Messages {
		p.count++
	}
}

// grids returns the places of the current part, and how many offsets it has; nil if it has none.
func (p *Printer) grids() (*places, int) {
	switch {
	case p.part != Messages:
		return &p.places[p.part], gridOfPart
	case p.count == 1:
		return &p.first, gridOfMessage
	}
	return nil, 0
}

// Write adds bytes to the current part. Prompts are the same only if they are written in the same pieces.
func (p *Printer) Write(b []byte) {
	if to, most := p.grids(); to != nil {
		for p.next < most && p.at+len(b) >= grid(p.next) {
			n := grid(p.next) - p.at
			p.hash = p.key.sum(p.hash, b[:n])
			to.hashes[p.next] = uint16(p.hash)
			b, p.at, p.next = b[n:], p.at+n, p.next+1
		}
	}
	p.hash, p.at = p.key.sum(p.hash, b), p.at+len(b)
}

// end notes the end of the current part.
func (p *Printer) end() {
	// The part itself is hashed, so that a text cannot move from one to another.
	p.hash = fold(p.hash^p.key[1], uint64(p.part)+uint64(p.at)<<8^p.key[2])
	if to, _ := p.grids(); to != nil {
		to.size, to.end = p.at, uint16(p.hash)
	}
	if p.part != Messages {
		return
	}
	p.last[p.count%lastEnds] = uint16(p.hash)
	if p.count%p.step != 0 {
		return
	}
	if p.kept == mostEnds { // from now on every second one
		for i := range mostEnds / 2 {
			p.ends[i] = p.ends[2*i+1]
		}
		if p.kept, p.step = mostEnds/2, 2*p.step; p.count%p.step != 0 {
			return
		}
	}
	p.ends[p.kept] = uint16(p.hash)
	p.kept++
}

// Print returns the encoded print of what was written. It ends the prompt.
func (p *Printer) Print() []byte {
	p.Begin(Messages) // which ends the last part
	p.count--
	b := make([]byte, 1, Max)
	b[0] = version
	for _, n := range [...]int{p.places[Tools].size, p.places[System].size, p.first.size, p.count} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = p.places[Tools].append(b, gridOfPart)
	b = p.places[System].append(b, gridOfPart)
	if p.count == 0 {
		return b
	}
	b = p.first.append(b, gridOfMessage)
	var room [mostEnds + lastEnds]int
	for _, n := range ends(room[:0], p.count) {
		hash := p.last[n%lastEnds]
		if n <= p.count-lastEnds {
			hash = p.ends[n/p.step-1]
		}
		b = binary.LittleEndian.AppendUint16(b, hash)
	}
	return b
}

// append appends the hashes of a part.
func (t *places) append(b []byte, most int) []byte {
	for i := 0; i < most && grid(i) <= t.size; i++ {
		b = binary.LittleEndian.AppendUint16(b, t.hashes[i])
	}
	return binary.LittleEndian.AppendUint16(b, t.end)
}

// ends appends the messages, from the second on, whose end has a hash in the print of so many messages, in order.
func ends(list []int, count int) []int {
	step := 1
	for count/step > mostEnds {
		step *= 2
	}
	for n := step; n <= count-lastEnds; n += step {
		if n > 1 {
			list = append(list, n)
		}
	}
	for n := max(2, count-lastEnds+1); n <= count; n++ {
		list = append(list, n)
	}
	return list
}

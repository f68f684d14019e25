package usage

import (
	"bytes"
	"time"
)

// gap is a place in a segment where something is missing.
type gap struct {
	at, until int64  // the bytes that cannot be read; empty if only the chain is broken
	after     link   // the last frame before it
	before    uint64 // the number that follows it; 0 if nothing does
	// from and to are when the calls on both sides ended; zero if there is none, or it cannot be told.
	from, to time.Time
}

// survey is what a segment holds.
type survey struct {
	end     int64 // after the last frame that can be read
	records int64 // settlements
	last    link  // the last frame; the one before the segment if it has none
	gaps    []gap
}

// scanner reads a whole segment in memory, and resynchronizes after damage.
type scanner struct {
	data []byte
	old  bool // the format
	// visit, if not nil, is called with each frame and its offset. broken reports that something is missing before it.
	visit func(f *frame, at int64, broken bool)

	survey
	hole   int64 // where the bytes begin that cannot be read; -1 if they can
	latest []byte
}

// scan surveys a segment. after is the last frame before it. floor is the number up to which nothing is
// missed: the segments that held it may be gone. It counts if after is not known; floorless if it is
// not known, either.
func scan(data []byte, old bool, after link, floor uint64, visit func(f *frame, at int64, broken bool)) survey {
	s := &scanner{data: data, old: old, visit: visit, survey: survey{last: after}, hole: -1}
	used := usedBytes(data)
	for at := int64(0); at < used; {
		f, ok := readFrame(data[at:], old)
		if ok && s.hole >= 0 && !s.plausible(&f) {
			ok = false
		}
		if !ok {
			if s.hole < 0 {
				s.hole = at
			}
			at++
			continue
		}
		s.take(&f, at, floor)
		at += f.size
		s.end = at
	}
	if s.hole >= 0 {
		s.gaps = append(s.gaps, gap{at: s.hole, until: used, after: s.last, from: s.ended(s.latest)})
	}
	return s.survey
}

// zeros is compared with what may be empty.
var zeros [pageSize]byte

// usedBytes returns the length of data without the zeros at its end. Most of a segment may be zeros, so
// whole pages are compared; one byte at a time, 4 MiB would take milliseconds. A frame may itself end with
// zeros.
func usedBytes(data []byte) int64 {
	for len(data) >= pageSize && bytes.Equal(data[len(data)-pageSize:], zeros[:]) {
		data = data[:len(data)-pageSize]
	}
	return int64(len(bytes.TrimRight(data, "\x00")))
}

// floorless says that nothing is known about the segments before the first one.
const floorless = ^uint64(0)

// plausible reports whether a frame after unreadable bytes can be one. Its checksum is right, but a
// checksum of 32 bits alone may be right by chance.
func (s *scanner) plausible(f *frame) bool {
	if f.kind == kindResume {
		return true
	}
	_, err := parseRecord(f.raw, nil)
	return err == nil
}

// take adds a frame.
func (s *scanner) take(f *frame, at int64, floor uint64) {
	broken, before := s.hole >= 0, f.follows()
	switch {
	case s.old:
	case s.last.known:
		broken = broken || s.last != before
	case floor != floorless && (broken || before.seq > floor):
		broken, s.last = true, link{seq: min(floor, before.seq), known: true}
	}
	if broken {
		g := gap{at: at, until: at, after: s.last, before: before.seq + 1, from: s.ended(s.latest), to: s.ended(f.raw)}
		if s.hole >= 0 {
			g.at, s.hole = s.hole, -1
		}
		s.gaps = append(s.gaps, g)
	}
	if s.visit != nil {
		s.visit(f, at, broken)
	}
	if f.kind == kindResume {
		s.last = f.resumed()
		return
	}
	s.records++
	s.latest = f.raw
	if !s.old {
		s.last = link{seq: f.seq, sum: f.sum, known: true}
	}
}

// ended returns when the call of a record ended, or the zero time.
func (s *scanner) ended(raw []byte) time.Time {
	if raw == nil {
		return time.Time{}
	}
	r, err := parseRecord(raw, nil)
	if err != nil {
		return time.Time{}
	}
	return r.At.Add(r.Latency)
}

package usage

import (
	"encoding/binary"
	"hash/crc32"
)

// A segment is a row of frames, then zeros. There are two formats, told apart by the name of the file.
//
// Format 2, which is written:
//
//	 0  checksum of everything after it in the frame
//	 4  kind of frame in the highest byte, length of the record in the others
//	 8  checksum of the frame before this one: the chain
//	12  sequence number
//	20  record
//
// Every frame can be checked alone, so reading continues after a damaged one. The chain and the
// sequence number tell what is missing between two frames, also where no byte is damaged: a file that
// is gone, or a record that was replaced.
//
// Format 1, which versions up to 0.1 wrote and which is only read: length, checksum of the record,
// record. It cannot tell how much is missing.
//
// Numbers are little-endian. Checksums are CRC-32C, which finds every change within four bytes.
const (
	frameHead    = 20
	oldFrameHead = 8

	// kindSettlement is a settlement. The two kinds differ from 0, which begins the zeros after the
	// last frame, in several bits.
	kindSettlement = 0x53
	// kindResume says that what is missing here was reported. Its head repeats the place of the frame
	// before it, and its record is the place that the next frame follows.
	kindResume = 0x52

	kindShift  = 24
	lengthMask = 1<<kindShift - 1

	// Below are the sizes of the smallest frames with a settlement: two bytes, nine texts, eleven numbers.
	minFrame    = frameHead + 22
	minOldFrame = oldFrameHead + 22
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// link is a place in the chain: the frame that the next one follows.
type link struct {
	seq   uint64
	sum   uint32
	known bool // false before the first frame of which anything is known
}

// follows returns the place that a frame follows.
func (f *frame) follows() link {
	l := link{seq: f.seq - 1, sum: f.prev, known: true}
	if f.kind == kindResume {
		l.seq = f.seq
	}
	return l
}

// frame is a frame that was read. Of format 1 it has neither kind nor place in the chain.
type frame struct {
	kind byte
	sum  uint32
	prev uint32
	seq  uint64
	raw  []byte // the record; a part of what was read
	size int64  // with the head
}

// seal fills in the head of a frame whose record is complete, and returns its place in the chain.
func seal(b []byte, kind byte, after link, seq uint64) link {
	binary.LittleEndian.PutUint32(b[4:], uint32(kind)<<kindShift|uint32(len(b)-frameHead))
	binary.LittleEndian.PutUint32(b[8:], after.sum)
	binary.LittleEndian.PutUint64(b[12:], seq)
	sum := crc32.Checksum(b[4:], castagnoli)
	binary.LittleEndian.PutUint32(b, sum)
	return link{seq: seq, sum: sum, known: true}
}

// resumeFrame returns the frame that is put between two others where something is missing. It follows
// before, and the next frame follows after.
func resumeFrame(before, after link) []byte {
	b := make([]byte, frameHead, frameHead+12)
	b = binary.LittleEndian.AppendUint64(b, after.seq)
	b = binary.LittleEndian.AppendUint32(b, after.sum)
	seal(b, kindResume, before, before.seq)
	return b
}

// resumed returns the link in a frame of the kind kindResume.
func (f *frame) resumed() link {
	return link{seq: binary.LittleEndian.Uint64(f.raw), sum: binary.LittleEndian.Uint32(f.raw[8:]), known: true}
}

// frameSize returns the size of the frame at the start of b as its head says, or 0 if no frame begins
// there. If b has not even a head, it returns the size of the head.
func frameSize(b []byte, old bool) int64 {
	head := int64(frameHead)
	if old {
		head = oldFrameHead
	}
	if int64(len(b)) < head {
		return head
	}
	if old {
		n := int64(binary.LittleEndian.Uint32(b))
		if n == 0 || n > maxRecord {
			return 0
		}
		return head + n
	}
	word := binary.LittleEndian.Uint32(b[4:])
	n := int64(word & lengthMask)
	switch kind := word >> kindShift; {
	case kind == kindSettlement && n > 0 && n <= maxRecord:
	case kind == kindResume && n == 12:
	default:
		return 0
	}
	return head + n
}

// readFrame reads the frame at the start of b. It returns false if there is none, or only a part.
func readFrame(b []byte, old bool) (f frame, ok bool) {
	n := frameSize(b, old)
	if n == 0 || n > int64(len(b)) {
		return frame{}, false
	}
	b = b[:n]
	if old {
		f = frame{kind: kindSettlement, sum: binary.LittleEndian.Uint32(b[4:]), raw: b[oldFrameHead:], size: n}
		return f, n > oldFrameHead && crc32.Checksum(f.raw, castagnoli) == f.sum
	}
	f = frame{
		kind: b[7], sum: binary.LittleEndian.Uint32(b), prev: binary.LittleEndian.Uint32(b[8:]),
		seq: binary.LittleEndian.Uint64(b[12:]), raw: b[frameHead:], size: n,
	}
	return f, n > frameHead && crc32.Checksum(b[4:], castagnoli) == f.sum
}

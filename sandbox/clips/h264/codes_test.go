package h264

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// bitReader reads what a bitWriter wrote.
type bitReader struct {
	buf []byte
	at  int
}

func (r *bitReader) u(n uint) (v uint32) {
	for range n {
		v = v<<1 | uint32(r.buf[r.at/8]>>(7-r.at%8)&1)
		r.at++
	}
	return v
}

func (r *bitReader) zeros() (n uint) {
	for r.u(1) == 0 {
		n++
	}
	return n
}

func (r *bitReader) ue() uint32 {
	n := r.zeros()
	return 1<<n - 1 + r.u(n)
}

func (r *bitReader) se() int {
	v := r.ue()
	if v&1 == 1 {
		return int(v+1) / 2
	}
	return -int(v / 2)
}

// code finds the code of a table that comes next.
func (r *bitReader) code(lengths, codes []uint8) int {
	for i, n := range lengths {
		if n == 0 || r.at+int(n) > 8*len(r.buf) {
			continue
		}
		at := r.at
		if r.u(uint(n)) == uint32(codes[i]) {
			return i
		}
		r.at = at
	}
	return -1
}

// residual reads a block of n coefficients, as clause 9.2 of the standard says.
func (r *bitReader) residual(n, context int) []int32 {
	var token int
	if context == chromaDC {
		token = r.code(chromaDCTokenLen[:], chromaDCTokenBits[:])
	} else {
		t := tokenTable(context)
		token = r.code(coeffTokenLen[t][:], coeffTokenBits[t][:])
	}
	coef := make([]int32, n)
	total, ones := token/4, token%4
	if total == 0 {
		return coef
	}
	levels := r.levels(total, ones)
	zeros := 0
	if total < n {
		if context == chromaDC {
			zeros = r.code(chromaDCZerosLen[total-1][:n-total+1], chromaDCZerosBits[total-1][:n-total+1])
		} else {
			zeros = r.code(totalZerosLen[total-1][:], totalZerosBits[total-1][:])
		}
	}
	at := total + zeros - 1
	for i, l := range levels {
		coef[at] = l
		run := 0
		if zeros > 0 && i < total-1 {
			t := min(zeros, 7) - 1
			run = r.code(runLen[t][:], runBits[t][:])
			zeros -= run
		}
		at -= 1 + run
	}
	return coef
}

func (r *bitReader) levels(total, ones int) []int32 {
	var levels []int32
	for range ones {
		levels = append(levels, 1-2*int32(r.u(1)))
	}
	suffix := uint(0)
	if total > 10 && ones < 3 {
		suffix = 1
	}
	for i := ones; i < total; i++ {
		prefix := r.zeros()
		code := min(prefix, 15) << suffix
		switch {
		case prefix == 14 && suffix == 0:
			code += uint(r.u(4))
		case prefix == 15 && suffix == 0:
			code += 15 + uint(r.u(12))
		case prefix == 15:
			code += uint(r.u(12))
		default:
			code += uint(r.u(suffix))
		}
		if i == ones && ones < 3 {
			code += 2
		}
		level := int32(code/2) + 1
		if code&1 == 1 {
			level = -level
		}
		levels = append(levels, level)
		suffix = max(suffix, 1)
		if max(level, -level) > 3<<(suffix-1) && suffix < 6 {
			suffix++
		}
	}
	return levels
}

func TestCodesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unsigned := rapid.SliceOf(rapid.Uint32Range(0, 1<<31-2)).Draw(t, "unsigned")
		signed := rapid.SliceOf(rapid.IntRange(-1<<20, 1<<20)).Draw(t, "signed")
		var w bitWriter
		for _, v := range unsigned {
			w.ue(v)
		}
		for _, v := range signed {
			before := 8*len(w.buf) + int(w.n)
			w.se(v)
			if got, want := seLen(v), 8*len(w.buf)+int(w.n)-before; got != want {
				t.Fatalf("seLen(%d) = %d, want %d", v, got, want)
			}
		}
		w.trailing()
		r := bitReader{buf: w.buf}
		for _, want := range unsigned {
			if got := r.ue(); got != want {
				t.Fatalf("ue = %d, want %d", got, want)
			}
		}
		for _, want := range signed {
			if got := r.se(); got != want {
				t.Fatalf("se = %d, want %d", got, want)
			}
		}
	})
}

func TestResidualRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		context := rapid.IntRange(chromaDC, 16).Draw(t, "context")
		n := rapid.SampledFrom([]int{15, 16}).Draw(t, "n")
		if context == chromaDC {
			n = 4
		}
		// Mostly zeros and ones, as blocks are, and now and then the greatest level there is.
		level := rapid.OneOf(rapid.Just(int32(0)), rapid.Int32Range(-1, 1), rapid.Int32Range(-20, 20), rapid.Int32Range(-2040, 2040))
		coef := rapid.SliceOfN(level, n, n).Draw(t, "coef")
		var w bitWriter
		total := w.residual(coef, context)
		w.trailing()
		r := bitReader{buf: w.buf}
		if got := r.residual(n, context); !slices.Equal(got, coef) {
			t.Fatalf("residual(%v, %d) reads as %v", coef, context, got)
		}
		if r.u(1) != 1 {
			t.Fatalf("residual(%v, %d) is followed by 0, want the 1 that ends the payload", coef, context)
		}
		if want := n - count(coef, 0); total != want {
			t.Fatalf("residual(%v) = %d, want %d", coef, total, want)
		}
	})
}

func count(s []int32, v int32) (n int) {
	for _, x := range s {
		if x == v {
			n++
		}
	}
	return n
}

// TestNALHasNoStartCode checks that no payload can be mistaken for the beginning of another unit.
func TestNALHasNoStartCode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.SliceOf(rapid.SampledFrom([]byte{0, 0, 0, 1, 2, 3, 4, 255})).Draw(t, "payload")
		unit := nal(0x65, payload)
		var back []byte
		zeros := 0
		for _, b := range unit[1:] {
			if zeros >= 2 && b <= 2 {
				t.Fatalf("nal(%v) = %v has a start code", payload, unit)
			}
			if zeros < 2 || b != 3 {
				back = append(back, b)
			}
			if b == 0 {
				zeros++
			} else {
				zeros = 0
			}
		}
		if !slices.Equal(back, payload) {
			t.Fatalf("nal(%v) reads as %v", payload, back)
		}
	})
}

// TestVanish checks the promise of quantizer.vanish: blocks up to it leave no coefficient.
func TestVanish(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := newQuantizer(rapid.IntRange(MinQP, MaxQP).Draw(t, "qp"))
		var b [16]int32
		left := q.vanish
		for left > 0 {
			at := rapid.IntRange(0, 15).Draw(t, "at")
			by := rapid.IntRange(1, left).Draw(t, "by")
			if b[at] < 0 || b[at] == 0 && rapid.Bool().Draw(t, "negative") {
				b[at] -= int32(by)
			} else {
				b[at] += int32(by)
			}
			left -= by
		}
		d := b
		fdct(&d)
		for i, c := range d {
			if got := quant(c, q.mf[i], q.interRound(), q.shift); got != 0 {
				t.Fatalf("quant of coefficient %d of %v at QP %d = %d, want 0", i, b, q.qp, got)
			}
		}
	})
}

func TestNewRefusesSizes(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{0, 16}, {16, 8}, {17, 16}, {16, 31}, {4098, 16}} {
		if _, err := New(size[0], size[1], 24); err == nil {
			t.Errorf("New(%d, %d) = nil error, want one", size[0], size[1])
		}
	}
}

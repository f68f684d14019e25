package h264

// chromaDC selects the code tables for chroma DC blocks. It takes the place of the context, which
// those blocks do not have; the standard calls it nC = -1.
const chromaDC = -1

// residual writes one block of quantized coefficients in scan order (clause 9.2) and returns how
// many of them are not zero. The context is the number expected from the neighboring blocks, or
// chromaDC.
//
// The code consists of the number of coefficients and of trailing ones (coeff_token), the signs of
// the trailing ones, the other levels, the number of zeros before the last coefficient
// (total_zeros), and how those zeros are distributed (run_before). All but the token go from high
// to low frequencies.
func (w *bitWriter) residual(coef []int32, context int) int {
	var level [16]int32 // coefficients that are not zero, highest frequency first
	var run [16]int     // number of zeros right before each of them, in scan order
	total, zeros, gap := 0, 0, 0
	last := len(coef) - 1
	// Zeros after the last coefficient are not coded at all.
	for last >= 0 && coef[last] == 0 {
		last--
	}
	for i := last; i >= 0; i-- {
		if coef[i] == 0 {
			gap++
			zeros++
			continue
		}
		if total > 0 {
			run[total-1] = gap
		}
		level[total] = coef[i]
		total++
		gap = 0
	}
	// Up to three coefficients of 1 or -1 at the high end are cheaper: only their signs are
	// written.
	ones := 0
	for ones < total && ones < 3 && (level[ones] == 1 || level[ones] == -1) {
		ones++
	}
	w.token(total, ones, context)
	if total == 0 {
		return 0
	}
	w.levels(level[:total], ones)
	// A full block has no zeros to tell about.
	if total < len(coef) {
		if context == chromaDC {
			w.u(uint(chromaDCZerosLen[total-1][zeros]), uint32(chromaDCZerosBits[total-1][zeros]))
		} else {
			w.u(uint(totalZerosLen[total-1][zeros]), uint32(totalZerosBits[total-1][zeros]))
		}
	}
	// The last run needs no code: it is what remains of the zeros.
	for i := 0; i < total-1 && zeros > 0; i++ {
		t := min(zeros, 7) - 1
		w.u(uint(runLen[t][run[i]]), uint32(runBits[t][run[i]]))
		zeros -= run[i]
	}
	return total
}

// token writes coeff_token (clause 9.2.1): the number of coefficients and how many trailing ones
// there are.
func (w *bitWriter) token(total, ones, context int) {
	k := 4*total + ones
	if context == chromaDC {
		w.u(uint(chromaDCTokenLen[k]), uint32(chromaDCTokenBits[k]))
		return
	}
	t := tokenTable(context)
	w.u(uint(coeffTokenLen[t][k]), uint32(coeffTokenBits[t][k]))
}

// tokenTable returns the table for a context: the more coefficients are expected, the shorter are
// the codes for many.
func tokenTable(context int) int {
	switch {
	case context >= 8:
		return 3
	case context >= 4:
		return 2
	case context >= 2:
		return 1
	}
	return 0
}

// levels writes the signs of the trailing ones and then the other values (clause 9.2.2). The codes
// adapt: suffix, the number of bits that are written plainly, grows with the values.
//
// Positive values have even codes and negative ones odd codes, so that small magnitudes of either
// sign are short.
func (w *bitWriter) levels(level []int32, ones int) {
	for _, l := range level[:ones] {
		w.flag(l < 0)
	}
	suffix := uint(0)
	if len(level) > 10 && ones < 3 {
		suffix = 1
	}
	for i, l := range level[ones:] {
		code := 2*l - 2
		if l < 0 {
			code = -2*l - 1
			l = -l
		}
		if i == 0 && ones < 3 {
			code -= 2 // it cannot be 1 or -1: that would have been a trailing one
		}
		w.level(uint32(code), suffix)
		if suffix == 0 {
			suffix = 1
		}
		// A value that is large for the current suffix length makes the next code longer.
		if l > 3<<(suffix-1) && suffix < 6 {
			suffix++
		}
	}
}

// level writes one value: a prefix of zeros and a one, and a suffix. The longest escape code of the
// profile holds 12 bits. The lowest quantizer that Encode accepts leaves no larger value (see
// MinQP).
func (w *bitWriter) level(code uint32, suffix uint) {
	switch {
	case suffix == 0 && code < 14:
		w.u(uint(code)+1, 1)
	case suffix == 0 && code < 30:
		w.u(15, 1)
		w.u(4, code-14)
	case suffix == 0:
		w.u(16, 1)
		w.u(12, code-30)
	case code < 15<<suffix:
		w.u(uint(code>>suffix)+1, 1)
		w.u(suffix, code)
	default:
		w.u(16, 1)
		w.u(12, code-15<<suffix)
	}
}

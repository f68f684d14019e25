package chat

import (
	"bytes"
	"strconv"

	"sluice/internal/kit/jsonscan"
)

// maxDigits bounds the digits of a number, those of its exponent included. No number of a request
// needs more than 20. The bound keeps integral free of allocations: the digits fit an array.
const maxDigits = 64

// number reads the JSON number at pos and returns its text, which is part of the body. It refuses
// numbers with too many digits and numbers that a float64 cannot hold, because upstreams read them
// differently. That also holds for numbers in fields that are only passed on.
func (s *scanner) number() ([]byte, bool) {
	end, digits, exponent, problem := jsonscan.Number(s.body, s.pos)
	if problem != jsonscan.OK {
		s.badNumber(end, problem)
		return nil, false
	}
	num := s.body[s.pos:end]
	s.pos = end
	if digits > maxDigits {
		s.bad("", "has a number of more than %d digits: %s", maxDigits, describe(num))
		return nil, false
	}
	if exponent { // without one, 64 digits are always in range
		if _, err := strconv.ParseFloat(string(num), 64); err != nil {
			s.bad("", "has a number beyond the range of a 64-bit float: %s", describe(num))
			return nil, false
		}
	}
	return num, true
}

// badNumber refuses a number. at is where a digit is missing; see jsonscan.Number.
func (s *scanner) badNumber(at int, problem jsonscan.Problem) {
	if problem == jsonscan.LeadingZero {
		s.malformed(at, "a number must not have leading zeros")
		return
	}
	s.pos = at
	switch problem {
	case jsonscan.NoFractionDigit:
		s.expected("a digit after the decimal point")
	case jsonscan.NoExponentDigit:
		s.expected("a digit in the exponent")
	default: // jsonscan.NoDigit
		s.expected("a digit")
	}
}

// float reads a number from lo to hi, both included. NaN and infinities have no form in JSON, so they
// need no check.
func (s *scanner) float(lo, hi float64) (float64, bool) {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		s.mismatch("a number")
		return 0, false
	}
	num, ok := s.number()
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(num), 64)
	if err != nil || v < lo || v > hi {
		s.bad("", "must be between %v and %v; got %s", lo, hi, describe(num))
		return 0, false
	}
	return v, true
}

// integer reads an integer from lo to hi. Only its value counts, not how it is written: 10, 10.0 and
// 1e1 are the same.
func (s *scanner) integer(lo, hi int64) (int64, bool) {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		s.mismatch("an integer")
		return 0, false
	}
	num, ok := s.number()
	if !ok {
		return 0, false
	}
	// The messages name the bound that was missed, so the caller need not look it up.
	v, kind := integral(num)
	switch {
	case kind == fraction:
		s.bad("", "must be an integer; got %s", describe(num))
		return 0, false
	case kind == tooSmall || kind == fits && v < lo:
		s.bad("", "must be at least %d; got %s", lo, describe(num))
		return 0, false
	case kind == tooLarge || v > hi:
		s.bad("", "must be at most %d; got %s", hi, describe(num))
		return 0, false
	}
	return v, true
}

// integrality says what a number is as an integer. The three ways to fail lead to different messages.
type integrality uint8

const (
	fits     integrality = iota
	fraction             // no integer at all
	tooSmall             // an integer below every int64
	tooLarge             // an integer above every int64
)

// integral returns the exact value of a checked JSON number. A float64 would not do: above 2^53 it
// rounds, and a seed would silently become another one.
//
// It writes the number as digits × 10^scale, without leading or trailing zeros among the digits. The
// number is then an integer exactly if scale is not negative.
func integral(num []byte) (int64, integrality) {
	// A checked number has at least one digit.
	negative := num[0] == '-'
	if negative {
		num = num[1:]
	}
	var digits [maxDigits]byte       // the significant ones, as values 0 to 9
	n, scale, pointed := 0, 0, false // n of digits are used; pointed: behind the decimal point
	if i := bytes.IndexAny(num, "eE"); i >= 0 {
		scale = exponent(num[i+1:])
		num = num[:i]
	}
	for _, c := range num {
		if c == '.' {
			pointed = true
			continue
		}
		if pointed {
			scale--
		}
		if n > 0 || c != '0' {
			digits[n] = c - '0'
			n++
		}
	}
	// 1.50e1 is 15 with scale 0, and 1500 is 15 with scale 2.
	for n > 0 && digits[n-1] == 0 {
		n--
		scale++
	}
	switch {
	case n == 0:
		return 0, fits
	case scale < 0:
		return 0, fraction
	// Multiplying cannot overflow here.
	case n+scale <= 19: // which a uint64 holds
		var v uint64
		for _, d := range digits[:n] {
			v = 10*v + uint64(d)
		}
		for range scale {
			v *= 10
		}
		// -1<<63 fits though 1<<63 does not; the conversion wraps to exactly that value.
		if negative && v <= 1<<63 {
			return -int64(v), fits
		}
		if !negative && v < 1<<63 {
			return int64(v), fits
		}
	}
	if negative {
		return 0, tooSmall
	}
	return 0, tooLarge
}

// exponent returns the value of a checked exponent, limited to 1000: maxDigits digits cannot make up
// for more, so the result is the same.
func exponent(b []byte) int {
	exp, err := strconv.Atoi(string(b))
	if err != nil || exp < -1000 || exp > 1000 {
		if b[0] == '-' {
			return -1000
		}
		return 1000
	}
	return exp
}

package chat

import (
	"math/big"
	"strconv"
	"strings"

	"sluice/internal/kit/jsonscan"
)

// maxDigits bounds the digits of a number, those of its exponent included. No number of a request
// needs more than 20.
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
// need no check. After a problem the result does not matter.
func (s *scanner) float(lo, hi float64) float64 {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		s.mismatch("a number")
		return 0
	}
	num, ok := s.number()
	v, err := strconv.ParseFloat(string(num), 64)
	if ok && (err != nil || v < lo || v > hi) {
		s.bad("", "must be between %v and %v; got %s", lo, hi, describe(num))
	}
	return v
}

// integer reads an integer from lo to hi. Only its value counts, not how it is written: 10, 10.0 and
// 1e1 are the same. After a problem the result does not matter.
func (s *scanner) integer(lo, hi int64) int64 {
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		s.mismatch("an integer")
		return 0
	}
	num, ok := s.number()
	if !ok {
		return 0
	}
	// The messages name the bound that was missed, so the caller need not look it up.
	v, kind := integral(num)
	switch {
	case kind == fraction:
		s.bad("", "must be an integer; got %s", describe(num))
	case kind == tooSmall || kind == fits && v < lo:
		s.bad("", "must be at least %d; got %s", lo, describe(num))
	case kind == tooLarge || v > hi:
		s.bad("", "must be at most %d; got %s", hi, describe(num))
	}
	return v
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
func integral(num []byte) (int64, integrality) {
	if v, err := strconv.ParseInt(string(num), 10, 64); err == nil { // nearly always
		return v, fits
	}
	digits, exponent, _ := strings.Cut(strings.ToLower(string(num)), "e")
	// More than maxDigits digits can make up for changes nothing, and would take time.
	scale, err := strconv.Atoi(exponent)
	switch {
	case exponent == "":
		scale = 0
	case err != nil && exponent[0] == '-':
		scale = -2 * maxDigits
	case err != nil:
		scale = 2 * maxDigits
	}
	scale = max(-2*maxDigits, min(scale, 2*maxDigits))
	// The scale is bounded, so the fraction has at most a few hundred digits.
	exact, _ := new(big.Rat).SetString(digits + "e" + strconv.Itoa(scale))
	switch {
	case !exact.IsInt():
		return 0, fraction
	case exact.Num().IsInt64():
		return exact.Num().Int64(), fits
	case exact.Sign() < 0:
		return 0, tooSmall
	}
	return 0, tooLarge
}

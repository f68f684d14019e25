package models

import (
	"errors"
	"math/big"
	"strconv"
	"strings"
)

// errZero is the division by zero, which has a reply of its own.
var errZero = errors.New("undefined (division by zero)")

// errNoSum says that a text is not an expression that we can evaluate.
var errNoSum = errors.New("not a sum")

// deepest is how many parentheses and signs may be open at once.
const deepest = 1000

// evaluate returns the exact value of an expression with the four operations, powers and parentheses. It
// returns the empty string if it is not an expression, and a text for a division by zero.
func evaluate(text string) string {
	// 2^3 becomes (1*2*2*2). powerPattern bounds both numbers.
	text = powerPattern.ReplaceAllStringFunc(text, func(power string) string {
		m := powerPattern.FindStringSubmatch(power)
		n, _ := strconv.Atoi(m[2])
		return "(1" + strings.Repeat("*"+m[1], n) + ")"
	})
	s := sum{rest: text}
	value, err := s.terms(0)
	if err == nil && s.next() != 0 {
		err = errNoSum
	}
	switch {
	case errors.Is(err, errZero):
		return err.Error()
	case err != nil:
		return ""
	}
	return decimal(value)
}

// sum is an expression while it is read, from the left.
type sum struct{ rest string }

// next returns the next character without reading it, or 0 at the end.
func (s *sum) next() byte {
	s.rest = strings.TrimLeft(s.rest, " \t\n")
	if s.rest == "" {
		return 0
	}
	return s.rest[0]
}

// operator reads one of the given operators, or returns 0. Two of the same in a row, as in 3--4 or 3**4,
// are not the operator.
func (s *sum) operator(among string) byte {
	c := s.next()
	if c == 0 || !strings.Contains(among, string(c)) || len(s.rest) > 1 && s.rest[1] == c {
		return 0
	}
	s.rest = s.rest[1:]
	return c
}

// terms reads terms that are added and subtracted.
func (s *sum) terms(depth int) (*big.Rat, error) {
	value, err := s.factors(depth)
	for err == nil {
		op := s.operator("+-")
		if op == 0 {
			break
		}
		var right *big.Rat
		if right, err = s.factors(depth); err != nil {
			break
		}
		if op == '-' {
			right.Neg(right)
		}
		value.Add(value, right)
	}
	return value, err
}

// factors reads factors that are multiplied and divided.
func (s *sum) factors(depth int) (*big.Rat, error) {
	value, err := s.factor(depth)
	for err == nil {
		op := s.operator("*/")
		if op == 0 {
			break
		}
		var right *big.Rat
		if right, err = s.factor(depth); err != nil {
			break
		}
		switch {
		case op == '*':
			value.Mul(value, right)
		case right.Sign() == 0:
			return nil, errZero
		default:
			value.Quo(value, right)
		}
	}
	return value, err
}

// factor reads a number, a sign and a factor, or an expression in parentheses.
func (s *sum) factor(depth int) (*big.Rat, error) {
	if depth > deepest {
		return nil, errNoSum
	}
	switch c := s.next(); {
	case c == '(':
		s.rest = s.rest[1:]
		value, err := s.terms(depth + 1)
		if err == nil && s.next() != ')' {
			err = errNoSum
		}
		if err == nil {
			s.rest = s.rest[1:]
		}
		return value, err
	case c == '-' || c == '+':
		if s.operator("+-") == 0 {
			return nil, errNoSum
		}
		value, err := s.factor(depth + 1)
		if err == nil && c == '-' {
			value.Neg(value)
		}
		return value, err
	}
	end := strings.IndexFunc(s.rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(s.rest)
	}
	value, ok := new(big.Rat).SetString(s.rest[:end])
	if !ok {
		return nil, errNoSum
	}
	s.rest = s.rest[end:]
	return value, nil
}

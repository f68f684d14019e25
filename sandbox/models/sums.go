package models

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// errZero is the division by zero, which has a reply of its own.
var errZero = errors.New("undefined (division by zero)")

// errNoSum says that a text is not an expression that we can evaluate.
var errNoSum = errors.New("not a sum")

// leadingZeros matches zeros at the beginning of a number, which Go would take for an octal one.
var leadingZeros = regexp.MustCompile(`(^|[^\d.])0+(\d)`)

// evaluate returns the exact value of an expression with the four operations, powers and parentheses. It
// returns the empty string if it is not an expression, and a text for a division by zero.
func evaluate(text string) string {
	// 2^3 becomes (1*2*2*2). powerPattern bounds both numbers.
	text = powerPattern.ReplaceAllStringFunc(text, func(power string) string {
		m := powerPattern.FindStringSubmatch(power)
		n, _ := strconv.Atoi(m[2])
		return "(1" + strings.Repeat("*"+m[1], n) + ")"
	})
	if strings.Contains(text, "//") || strings.Contains(text, "/*") {
		return "" // a comment in Go
	}
	// Go writes these expressions as people do, but on one line.
	tree, err := parser.ParseExpr(leadingZeros.ReplaceAllString(strings.Join(strings.Fields(text), " "), "$1$2"))
	if err != nil {
		return ""
	}
	value, err := valueOf(tree)
	switch {
	case errors.Is(err, errZero):
		return err.Error()
	case err != nil:
		return ""
	}
	return decimal(value)
}

// valueOf returns the value of an expression.
func valueOf(e ast.Expr) (*big.Rat, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if value, ok := new(big.Rat).SetString(e.Value); ok {
			return value, nil
		}
	case *ast.ParenExpr:
		return valueOf(e.X)
	case *ast.UnaryExpr: // a sign
		return operate(e.Op, new(big.Rat), e.X)
	case *ast.BinaryExpr:
		left, err := valueOf(e.X)
		if err != nil {
			return nil, err
		}
		return operate(e.Op, left, e.Y)
	}
	return nil, errNoSum
}

// operate returns the result of one of the four operations. A sign is an operation on zero.
func operate(op token.Token, left *big.Rat, y ast.Expr) (*big.Rat, error) {
	right, err := valueOf(y)
	switch {
	case err != nil:
		return nil, err
	case op == token.ADD:
		return left.Add(left, right), nil
	case op == token.SUB:
		return left.Sub(left, right), nil
	case op == token.MUL:
		return left.Mul(left, right), nil
	case op == token.QUO && right.Sign() == 0:
		return nil, errZero
	case op == token.QUO:
		return left.Quo(left, right), nil
	}
	return nil, errNoSum
}

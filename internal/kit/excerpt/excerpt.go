// Package excerpt shortens text that others wrote before it is repeated in a message, a log or a
// row of the database. Nobody outside may decide how much of that text we write.
//
// Lengths are bytes, because bytes are what fills a log or a row. A cut never leaves half a
// character behind. Cause shortens errors of the network to what a message does not say already.
package excerpt

import (
	"errors"
	"net"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Of returns s if it has at most most bytes. Otherwise it returns the beginning of s, followed by
// an ellipsis that most does not count. The shortened text is valid UTF-8; a text that is short
// enough is returned as it is, valid or not, so that a message shows what was sent.
func Of(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return Head(s, most) + "…"
}

// Head returns the first most bytes of s as valid UTF-8: a character cut in half and bytes that are
// not UTF-8 are left out, even if s is short. PostgreSQL refuses text that is not valid UTF-8, so
// text to be stored goes through Head.
func Head(s string, most int) string {
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// Line returns s as one line of valid UTF-8: each run of white space and of characters that cannot be seen is one space.
func Line(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.Join(strings.Fields(s), " ")
}

// IsText reports whether s is text that every database stores: UTF-8 without NUL.
func IsText(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }

// Cause returns the error of the operating system inside a network error, such as "connection
// refused". The text around it repeats the address, which messages name already. Cause returns err
// itself if there is no such error inside.
func Cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if sys, ok := errors.AsType[*os.SyscallError](op); ok {
			return sys.Err
		}
	}
	return err
}

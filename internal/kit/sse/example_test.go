package sse_test

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice/internal/kit/sse"
)

// Next returns one event per call. Data lines of one event are joined, and comments are skipped.
func ExampleReader_Next() {
	stream := ": a comment\n" +
		"event: delta\ndata: one\n\n" +
		"data: two\ndata: lines\n\n"
	rd := sse.NewReader(strings.NewReader(stream), nil, 1024)
	for {
		ev, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		fmt.Printf("%q %q\n", ev.Name, ev.Data)
	}
	// Output:
	// "delta" "one"
	// "" "two\nlines"
}

// An event without the blank line behind it never happened: the connection broke inside it.
func ExampleReader_Next_cut() {
	rd := sse.NewReader(strings.NewReader("data: whole\n\ndata: {\"cut"), nil, 1024)
	ev, _ := rd.Next()
	fmt.Printf("%s\n", ev.Data)
	_, err := rd.Next()
	fmt.Println(err)
	// Output:
	// whole
	// EOF
}

// The bound protects the process from an upstream that never ends an event.
func ExampleErrTooLong() {
	rd := sse.NewReader(strings.NewReader("data: "+strings.Repeat("x", 100_000)+"\n\n"), nil, 1024)
	_, err := rd.Next()
	fmt.Println(errors.Is(err, sse.ErrTooLong))
	// Output: true
}

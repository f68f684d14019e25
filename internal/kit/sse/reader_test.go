package sse_test

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/kit/sse"
)

// readAll returns "name|data" of every event, and the error at the end.
func readAll(r io.Reader, max int) ([]string, error) {
	rd := sse.NewReader(r, nil, max)
	var got []string
	for {
		ev, err := rd.Next()
		if err != nil {
			return got, err
		}
		got = append(got, string(ev.Name)+"|"+string(ev.Data))
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 9000)
	tests := map[string]struct {
		in   string
		want []string
	}{
		"one":                    {"data: a\n\n", []string{"|a"}},
		"two":                    {"data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		"no space":               {"data:a\n\n", []string{"|a"}},
		"two spaces":             {"data:  a\n\n", []string{"| a"}},
		"crlf":                   {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		"cr":                     {"data: a\r\rdata: b\r\r\n", []string{"|a", "|b"}},
		"mixed ends":             {"data: a\n\r\ndata: b\r\n\n", []string{"|a", "|b"}},
		"named":                  {"event: ping\ndata: {}\n\n", []string{"ping|{}"}},
		"name behind":            {"data: {}\nevent: ping\n\n", []string{"ping|{}"}},
		"several lines":          {"data: a\ndata: b\ndata:\n\n", []string{"|a\nb\n"}},
		"comment alone":          {": keep-alive\n\ndata: a\n\n", []string{"|a"}},
		"comment inside":         {": x\ndata: a\n\n", []string{"|a"}},
		"id and retry":           {"id: 7\nretry: 10\ndata: a\n\n", []string{"|a"}},
		"field without a colon":  {"data\n\ndata: a\n\n", []string{"|a"}},
		"empty data":             {"data: \n\ndata:\n\ndata: a\n\n", []string{"|a"}},
		"blank lines before":     {"\n\n\ndata: a\n\n", []string{"|a"}},
		"byte order mark":        {"\xef\xbb\xbfdata: a\n\n", []string{"|a"}},
		"colon in data":          {"data: a: b\n\n", []string{"|a: b"}},
		"longer than the buffer": {"data: " + long + "\n\ndata: b\n\n", []string{"|" + long, "|b"}},
		"unfinished event":       {"data: a\n\ndata: b\n", []string{"|a"}},
		"unfinished line":        {"data: a\n\ndata: b", []string{"|a"}},
		"nothing":                {"", nil},
	}
	for name, tt := range tests {
		for how, r := range map[string]io.Reader{
			"whole":       strings.NewReader(tt.in),
			"by byte":     iotest.OneByteReader(strings.NewReader(tt.in)),
			"end at once": iotest.DataErrReader(strings.NewReader(tt.in)),
		} {
			got, err := readAll(r, 1<<20)
			if !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: error %v, want EOF", name, how, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s, %s: -want +got\n%s", name, how, diff)
			}
		}
	}
}

func TestReaderBounds(t *testing.T) {
	t.Parallel()
	got, err := readAll(strings.NewReader("data: a\n\ndata: "+strings.Repeat("x", 20_000)+"\n\n"), 8<<10)
	if !errors.Is(err, sse.ErrTooLong) || !cmp.Equal(got, []string{"|a"}) {
		t.Errorf("an endless event: %v, %v, want |a and ErrTooLong", got, err)
	}
}

func TestReaderPassesErrorsOn(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	got, err := readAll(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(boom)), 1<<20)
	if !errors.Is(err, boom) || !cmp.Equal(got, []string{"|a"}) {
		t.Errorf("a cut stream: %v, %v, want |a and the source's error", got, err)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	pr, pw := io.Pipe()
	go func() {
		_, _ = io.WriteString(pw, "data: a\n\ndata: b\n\ndata: c")
		_, _ = io.WriteString(pw, "\n\n: a comment\n\nevent: x\n\ndata:\n\n")
		_, _ = io.WriteString(pw, "event: x\ndata: d\n\n: a comment\n\ndata: e\n\n")
		pw.Close()
	}()
	rd := sse.NewReader(pr, nil, 1<<20)
	want := []struct {
		data  string
		ready bool // behind it
	}{{"a", true}, {"b", false}, {"c", false}, {"d", true}, {"e", false}}
	for _, w := range want {
		ev, err := rd.Next()
		if err != nil || string(ev.Data) != w.data {
			t.Fatalf("Next() = %q, %v, want %q", ev.Data, err, w.data)
		}
		if got := rd.Ready(); got != w.ready {
			t.Errorf("Ready() behind %q = %t, want %t", w.data, got, w.ready)
		}
	}
}

// However a stream is cut into reads, the events are the same.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"data: a\n\ndata: b\r\n\r\n", "event: x\r\rdata:\n\n\n", ": c\n\ndata: a\ndata: b\n\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		whole, err := readAll(strings.NewReader(in), 1<<20)
		if !errors.Is(err, io.EOF) {
			t.Fatalf("error %v, want EOF", err)
		}
		pieces, _ := readAll(iotest.OneByteReader(strings.NewReader(in)), 1<<20)
		if diff := cmp.Diff(whole, pieces); diff != "" {
			t.Errorf("read whole and by byte differ: -whole +bytes\n%s", diff)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	event := "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"},\"finish_reason\":null}]}\n\n"
	stream := strings.Repeat(event, 100)
	pool := &sync.Pool{New: func() any { b := make([]byte, 4<<10); return &b }}
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		rd := sse.NewReader(strings.NewReader(stream), pool, 1<<20)
		for {
			if _, err := rd.Next(); err != nil {
				break
			}
		}
		rd.Close()
	}
}

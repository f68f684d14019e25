package plainhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// Chunks are put together however they arrive, and nothing that net/http would read otherwise is taken for one.
func TestChunks(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	long := strings.Repeat("0123456789abcdef", 1000)
	for _, tt := range []struct {
		name, body, want string
		ok               bool
	}{
		{"two", "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", "abc", true},
		{"none", "0\r\n\r\n", "", true},
		{"long", "3E80\r\n" + long + "\r\n0\r\n\r\n", long, true},
		{"an extension and trailers", "2;x=\"y\"\r\nab\r\n00\r\nA: b\r\nC: d\r\n\r\n", "ab", true},
		{"padded", "2 \t\r\nab\r\n0\r\n\r\n", "ab", true},
		{"no end", "2\r\nab\r\n", "ab", false},
		{"cut in a chunk", "5\r\nab", "ab", false},
		{"cut in a trailer", "2\r\nab\r\n0\r\nA: b\r\n", "ab", false},
		{"longer than said", "1\r\nab\r\n0\r\n\r\n", "a", false},
		{"a sign", "+2\r\nab\r\n0\r\n\r\n", "", false},
		{"a prefix", "0x2\r\nab\r\n0\r\n\r\n", "", false},
		{"no number", "\r\nab\r\n0\r\n\r\n", "", false},
		{"a huge number", "ffffffffffffffff\r\nab\r\n0\r\n\r\n", "", false},
		{"a bare line feed", "2\nab\r\n0\r\n\r\n", "", false},
		{"a bare line feed behind a chunk", "2\r\nab\n0\r\n\r\n", "ab", false},
		{"a bare line feed in the trailers", "2\r\nab\r\n0\r\nA: b\n\r\n", "ab", false},
		{"a folded trailer", "2\r\nab\r\n0\r\nA: b\r\n c\r\n\r\n", "ab", false},
		{"a control character", "2;a\x00\r\nab\r\n0\r\n\r\n", "", false},
		{"an endless line", "2;" + long, "", false},
		{"more frame than content", strings.Repeat("1;"+long[:1000]+"\r\na\r\n", 20) + "0\r\n\r\n", strings.Repeat("a", 16), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, source := range map[string]io.Reader{
				"at once":      strings.NewReader(head + tt.body),
				"byte by byte": iotest.OneByteReader(strings.NewReader(head + tt.body)),
			} {
				_, got, err := read(t, (&tape{Reader: source}).to(), post(t.Context(), t, "http://upstream.test/", "x"))
				if got != tt.want || (err == nil) != tt.ok {
					t.Errorf("%s: the body is %.40q, %v, want %.40q and an error %t", name, got, err, tt.want, !tt.ok)
				}
			}
			tape := &tape{Reader: iotest.OneByteReader(strings.NewReader(head + tt.body))}
			if got, err := awaited(t, tape); got != tt.want || (err == nil) != tt.ok {
				t.Errorf("awaited: the body is %.40q, %v, want %.40q and an error %t", got, err, tt.want, !tt.ok)
			}
		})
	}
}

// awaited returns the body of the reply on a tape. It awaits each piece before it reads it.
func awaited(t *testing.T, from *tape) (string, error) {
	t.Helper()
	resp, err := from.to().RoundTrip(post(t.Context(), t, "http://upstream.test/", "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got strings.Builder
	room := make([]byte, 1<<10)
	for {
		resp.Body.(interface{ Await() }).Await()
		n, err := resp.Body.Read(room)
		got.Write(room[:n])
		if errors.Is(err, io.EOF) {
			return got.String(), nil
		}
		if err != nil {
			return got.String(), err
		}
	}
}

// once is a connection that reports that it was reset, and afterwards only that it has ended.
type once struct {
	io.Reader
	err error
}

func (o *once) Read(p []byte) (int, error) {
	n, err := o.Reader.Read(p)
	if errors.Is(err, io.EOF) && o.err != nil {
		err, o.err = o.err, nil
	}
	return n, err
}

// What Await meets is what Read returns: a reply without a length that was cut is not taken for a whole one.
func TestAwaitKeepsErrors(t *testing.T) {
	t.Parallel()
	reset := errors.New("reset")
	for _, head := range []string{"HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n"} {
		got, err := awaited(t, &tape{Reader: &once{strings.NewReader(head + "ab"), reset}})
		if got != "ab" || !errors.Is(err, reset) {
			t.Errorf("%q: the body is %q, %v, want ab and the reset", head, got, err)
		}
	}
}

// BenchmarkChunks measures the cost of one chunk of a reply whose chunks arrive together.
func BenchmarkChunks(b *testing.B) {
	const chunks = 1000
	text := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", 200, strings.Repeat("x", 200)), chunks) + "0\r\n\r\n"
	room := make([]byte, 16<<10)
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://upstream.test/", strings.NewReader("x"))
		if err != nil {
			b.Fatal(err)
		}
		resp, err := (&tape{Reader: strings.NewReader(text)}).to().RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for err == nil {
			var m int
			m, err = resp.Body.Read(room)
			n += m
		}
		if !errors.Is(err, io.EOF) || n != 200*chunks {
			b.Fatalf("%d bytes, %v, want %d", n, err, 200*chunks)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*chunks), "ns/chunk")
}

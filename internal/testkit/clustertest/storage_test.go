package clustertest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// bucket is the only bucket of the object store.
const bucket = "clips"

// store is an object store that speaks as much of S3 as finished files need. It believes every
// signature: those of the client have tests of their own.
type store struct {
	mu      sync.Mutex
	objects map[string][]byte
}

// newStore starts a store that runs until the test ends, and returns its address.
func newStore(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(&store{objects: map[string][]byte{}})
	t.Cleanup(server.Close)
	return server.URL
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/"+bucket+"/")
	s.mu.Lock()
	object, found := s.objects[name]
	s.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		body, err := decode(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.objects[name] = body
		s.mu.Unlock()
		w.Header().Set("ETag", `"`+strconv.Itoa(len(body))+`"`)
	case http.MethodDelete:
		s.mu.Lock()
		delete(s.objects, name)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		if strings.Trim(r.URL.Path, "/") == bucket { // does the bucket exist?
			return
		}
		if !found {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Message>there is no such object</Message></Error>`)
			return
		}
		w.Header().Set("ETag", `"`+strconv.Itoa(len(object))+`"`)
		w.Header().Set("Content-Type", "video/mp4")
		http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(object))
	}
}

// decode reads the body of an upload. Without TLS, clients sign each piece of it: a line with the length
// in hex and the signature, the data, and an empty line.
func decode(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return io.ReadAll(io.LimitReader(r.Body, 64<<20))
	}
	var whole []byte
	in := bufio.NewReader(r.Body)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		length, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(length, 16, 32)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return whole, nil // checksums may follow, which nobody needs here
		}
		data := make([]byte, n+2) // and the end of the line
		if _, err := io.ReadFull(in, data); err != nil {
			return nil, err
		}
		whole = append(whole, data[:n]...)
	}
}

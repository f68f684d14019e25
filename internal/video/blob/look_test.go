package blob_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/video/blob"
)

// store is an object store that answers every request with nothing, or not at all.
type store struct {
	away  atomic.Bool
	asked atomic.Int64
}

func (s *store) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	if s.away.Load() {
		return nil, errors.New("no route to host")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

// Look asks the store only after a request has failed, until one succeeds.
func TestLook(t *testing.T) {
	t.Parallel()
	far := &store{}
	s, err := blob.NewS3(t.TempDir(), blob.S3Options{Endpoint: "http://s3.example.com", Region: "x", Bucket: "bucket", AccessKey: "a", SecretKey: "s", Transport: far})
	if err != nil {
		t.Fatal(err)
	}
	if f := s.Look(t.Context()); f.Failed || f.Message != "" || far.asked.Load() != 0 {
		t.Errorf("Look at a store that nobody used = %+v after %d requests, want nothing", f, far.asked.Load())
	}
	far.away.Store(true)
	if err := s.Delete(t.Context(), "x"); err == nil {
		t.Error("Delete without a store = nil")
	}
	if f := s.Look(t.Context()); f.Failed || !strings.HasPrefix(f.Message, "no file could be stored or read for ") || f.Err == nil {
		t.Errorf("Look at a store that is away = %+v, want a remark: chat does not need it", f)
	}
	far.away.Store(false)
	if f := s.Look(t.Context()); f.Failed || f.Message != "" {
		t.Errorf("Look at a store that is back = %+v", f)
	}
}

package blob_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/internal/video/blob"
)

// bucketStore answers like an object store in a region that holds one object.
type bucketStore struct {
	region string
	seen   []string
	sums   []string
}

// RoundTrip implements http.RoundTripper.
func (s *bucketStore) RoundTrip(r *http.Request) (*http.Response, error) {
	line := r.Method + " " + r.URL.Host + r.URL.RequestURI()
	if r.Header.Get("Range") != "" {
		line += " " + r.Header.Get("Range") + " if " + r.Header.Get("If-Match")
	}
	s.seen = append(s.seen, line)
	if r.Method == http.MethodPut {
		s.sums = append(s.sums, r.Header.Get("X-Amz-Content-Sha256"))
	}
	answer := func(status int, body string) (*http.Response, error) {
		header := http.Header{"Etag": {`"1"`}, "Last-Modified": {"Tue, 17 Nov 2026 12:00:00 GMT"}}
		if r.Method == http.MethodHead {
			header.Set("Content-Length", "4")
		}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	switch {
	// A request that was signed for another region is refused, with the region of the bucket.
	case !strings.Contains(r.Header.Get("Authorization"), "/"+s.region+"/"):
		return answer(http.StatusBadRequest, `<Error><Code>AuthorizationHeaderMalformed</Code><Region>`+s.region+`</Region></Error>`)
	case r.Method == http.MethodDelete:
		return answer(http.StatusNoContent, "")
	case r.Method == http.MethodGet:
		return answer(http.StatusPartialContent, "ov")
	}
	return answer(http.StatusOK, "")
}

// use does everything that is done with files.
func use(t *testing.T, b *blob.S3) {
	t.Helper()
	ctx := t.Context()
	if err := b.Check(ctx); err != nil {
		t.Errorf("Check = %v", err)
	}
	if _, err := b.Put(ctx, "clip.mp4", func(w io.Writer) error { _, err := io.WriteString(w, "moov"); return err }); err != nil {
		t.Errorf("Put = %v", err)
	}
	f, err := b.Open(ctx, "clip.mp4")
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	defer f.Close()
	if _, err := f.Seek(2, io.SeekStart); err != nil {
		t.Errorf("Seek = %v", err)
	}
	if got, err := io.ReadAll(f); string(got) != "ov" || err != nil {
		t.Errorf("Read = %q, %v, want the rest of the file", got, err)
	}
	if err := b.Delete(ctx, "clip.mp4"); err != nil {
		t.Errorf("Delete = %v", err)
	}
}

// Requests go to the address that the operator named, are signed for the region of the bucket with the sum of the whole
// file, and read on from the version that was opened.
func TestS3Requests(t *testing.T) {
	t.Parallel()
	const key = "a%20b%2Bc/%C3%BC%24%26%2C%3A%3B%3D%40/clip.mp4"
	for _, tt := range []struct {
		endpoint, bucket, region string
		first, at                string
	}{
		{"http://store.example.com:9000", "clips", "", "GET store.example.com:9000/clips/?location=", "store.example.com:9000/clips/"},
		{"http://store.example.com:9000", "clips", "eu-central-1", "", "store.example.com:9000/clips/"},
		{"https://s3.eu-central-1.amazonaws.com", "clips", "", "", "clips.s3.eu-central-1.amazonaws.com/"},
		{"https://s3.dualstack.eu-central-1.amazonaws.com", "clips", "", "", "clips.s3.dualstack.eu-central-1.amazonaws.com/"},
		{"https://s3.eu-central-1.amazonaws.com", "with.dots", "", "", "s3.eu-central-1.amazonaws.com/with.dots/"},
	} {
		s := &bucketStore{region: "eu-central-1"}
		b, err := blob.NewS3(t.TempDir(), blob.S3Options{Endpoint: tt.endpoint, Region: tt.region, Bucket: tt.bucket, Prefix: "a b+c/ü$&,:;=@/", AccessKey: "key", SecretKey: "secret", Transport: s})
		if err != nil {
			t.Fatal(err)
		}
		use(t, b)
		want := []string{"HEAD " + tt.at, "PUT " + tt.at + key, "HEAD " + tt.at + key, "GET " + tt.at + key + ` bytes=2- if "1"`, "DELETE " + tt.at + key}
		if tt.first != "" {
			want = slices.Insert(want, 0, tt.first)
		}
		if !slices.Equal(s.seen, want) {
			t.Errorf("requests to %s:\n%s\nwant\n%s", tt.endpoint, strings.Join(s.seen, "\n"), strings.Join(want, "\n"))
		}
		sum := sha256.Sum256([]byte("moov"))
		if want := []string{hex.EncodeToString(sum[:])}; !slices.Equal(s.sums, want) {
			t.Errorf("sums of files that were sent to %s = %q, want %q", tt.endpoint, s.sums, want)
		}
	}
}

// roundTrip is a transport of one function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A store that sends clients elsewhere is not followed, and one that fails is asked three times.
func TestS3Refusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		code   string
		want   string
		asked  int
	}{
		{http.StatusMovedPermanently, "PermanentRedirect", "delete a file: the object store answered 301 PermanentRedirect", 1},
		{http.StatusForbidden, "AccessDenied", "delete a file: the object store answered 403 AccessDenied", 1},
		{http.StatusServiceUnavailable, "Busy", "delete a file: the object store answered 503 Busy", 3},
	} {
		asked := 0
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			asked++
			if r.URL.Host != "store.example.com" {
				t.Errorf("a request went to %s", r.URL.Host)
			}
			body := "<Error><Code>" + tt.code + "</Code><Message>of key</Message></Error>"
			return &http.Response{StatusCode: tt.status, Header: http.Header{"Location": {"http://elsewhere.example.com/"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})
		b, err := blob.NewS3(t.TempDir(), blob.S3Options{Endpoint: "http://store.example.com", Region: "us-east-1", Bucket: "clips", AccessKey: "key", SecretKey: "secret", Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Delete(context.Background(), "a"); err == nil || err.Error() != tt.want || asked != tt.asked {
			t.Errorf("Delete = %v after %d requests, want %q after %d", err, asked, tt.want, tt.asked)
		}
	}
}

package oracles

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/minio/minio-go/v7/pkg/signer"

	"sluice/internal/video/blob"
)

// store answers like an object store in a region, and checks signatures with the code of another client.
type store struct {
	t      *testing.T
	region string
	seen   []string
}

// RoundTrip implements http.RoundTripper.
func (s *store) RoundTrip(r *http.Request) (*http.Response, error) {
	s.seen = append(s.seen, r.Method+" "+r.URL.EscapedPath())
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Etag": {`"1"`}}, Body: http.NoBody, Request: r}
	// A request that was signed for another region is refused, with the region of the bucket.
	if !strings.Contains(r.Header.Get("Authorization"), "/"+s.region+"/") {
		resp.StatusCode = http.StatusBadRequest
		resp.Header.Set("X-Amz-Bucket-Region", s.region)
		return resp, nil
	}
	if got, want := r.Header.Get("Authorization"), s.sign(r); field(got) != field(want) {
		s.t.Errorf("%s %s has the signature %s, want %s", r.Method, r.URL, got, want)
	}
	return resp, nil
}

// sign returns the header that the other client would send.
func (s *store) sign(r *http.Request) string {
	again := http.Request{Method: r.Method, URL: &url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path}, Host: r.Host, Header: http.Header{}}
	// It signs all headers that it is given.
	_, list, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	for name := range strings.SplitSeq(list, ";") {
		switch name {
		case "host", "x-amz-date": // it adds them itself
		case "content-length":
			again.Header.Set(name, fmt.Sprint(r.ContentLength))
		default:
			again.Header.Set(name, r.Header.Get(name))
		}
	}
	return signer.SignV4(again, accessKey, secretKey, "", s.region).Header.Get("Authorization")
}

// field returns the signature itself.
func field(header string) string {
	_, signature, _ := strings.Cut(header, "Signature=")
	return signature
}

// TestS3Signature lets the client do everything it can. The store in the other tests checks no signature.
// The clock of the bubble stands still, so both clients sign for the same second.
func TestS3Signature(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, endpoint := range []string{"http://store.example.com:9000", "https://s3.eu-central-1.amazonaws.com"} {
			s := &store{t: t, region: "eu-central-1"}
			b, err := blob.NewS3(t.TempDir(), blob.S3Options{Endpoint: endpoint, Bucket: bucket, Prefix: "a b+c/ü$&,:;=@/", AccessKey: accessKey, SecretKey: secretKey, Transport: s})
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			if err := b.Check(ctx); err != nil {
				t.Errorf("Check = %v", err)
			}
			if _, err := b.Put(ctx, "clip.mp4", func(w io.Writer) error { _, err := io.WriteString(w, "moov"); return err }); err != nil {
				t.Errorf("Put = %v", err)
			}
			if f, err := b.Open(ctx, "clip.mp4"); err != nil {
				t.Errorf("Open = %v", err)
			} else {
				f.Close()
			}
			if err := b.Delete(ctx, "clip.mp4"); err != nil {
				t.Errorf("Delete = %v", err)
			}
			if len(s.seen) != 5 { // Check needs two: the first one learns the region
				t.Errorf("requests = %q, want five", s.seen)
			}
		}
	})
}

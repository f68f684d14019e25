package oracles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"sluice/internal/video/blob"
	"sluice/internal/video/blob/blobtest"
)

const (
	bucket    = "clips"
	accessKey = "ACCESSKEYCANARY"
	secretKey = "secret-key-canary"
)

// startS3 runs an object store with an empty bucket, and returns its address.
func startS3(t *testing.T) string {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return server.URL
}

func newS3(t *testing.T, endpoint, dir string) *blob.S3 {
	t.Helper()
	s, err := blob.NewS3(dir, blob.S3Options{Endpoint: endpoint, Region: "us-east-1", Bucket: bucket, Prefix: "sluice/", AccessKey: accessKey, SecretKey: secretKey})
	if err != nil {
		t.Fatalf("NewS3 = %v", err)
	}
	return s
}

func TestS3(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) (blobtest.Files, string) {
		dir := filepath.Join(t.TempDir(), "tmp")
		return newS3(t, startS3(t), dir), dir
	})
}

// What goes wrong is told without the keys.
func TestS3Trouble(t *testing.T) {
	t.Parallel()
	gone := newS3(t, "http://127.0.0.1:1", t.TempDir())
	_, open := gone.Open(t.Context(), "a")
	other, err := blob.NewS3(t.TempDir(), blob.S3Options{Endpoint: startS3(t), Region: "us-east-1", Bucket: "missing", AccessKey: accessKey, SecretKey: secretKey})
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Open":                    open,
		"Delete":                  gone.Delete(t.Context(), "a"),
		"Check":                   gone.Check(t.Context()),
		"Check of another bucket": other.Check(t.Context()),
	} {
		if err == nil || strings.Contains(err.Error(), accessKey) || strings.Contains(err.Error(), secretKey) {
			t.Errorf("%s = %v, want an error that names no key", name, err)
		}
	}
	if _, err := blob.NewS3(t.TempDir(), blob.S3Options{Endpoint: "s3.example.com"}); err == nil {
		t.Error("NewS3 with an endpoint that is no URL = nil, want an error")
	}
}

// TestVideoOnS3 is a video whose file lies in an object store.
func TestVideoOnS3(t *testing.T) {
	t.Parallel()
	endpoint := startS3(t)
	g := startGateway(t, fmt.Sprintf("blob: {kind: s3, endpoint: %q, region: us-east-1, bucket: %s, prefix: sluice/, access_key: %s, secret_key: %s}\n", endpoint, bucket, accessKey, secretKey))
	type job struct {
		ID, Status  string
		Generations []struct {
			ID     string
			Output struct {
				VideoURL string `json:"video_url"`
			}
		}
	}
	ask := func(method, url, body string, out any) (*http.Response, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(url, g.url) {
			req.Header.Set("Authorization", "Bearer "+g.owner)
		} else {
			req.Header.Set("Range", "bytes=4-7")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if out != nil {
			if err := json.Unmarshal(raw, out); err != nil {
				t.Fatalf("%s %s = %s", method, url, raw)
			}
		}
		return resp, raw
	}
	var j job
	ask("POST", g.url+"/video/generations/jobs", `{"prompt":"a lighthouse at dusk","width":480,"height":480,"n_seconds":1}`, &j)
	for deadline := time.After(time.Minute); j.Status != "succeeded"; {
		select {
		case <-deadline:
			t.Fatalf("the job is %+v after a minute", j)
		case <-time.After(20 * time.Millisecond):
		}
		if j.Status == "failed" {
			t.Fatalf("the job is %+v", j)
		}
		ask("GET", g.url+"/video/generations/jobs/"+j.ID, "", &j)
	}
	_, film := ask("GET", g.url+"/video/generations/"+j.Generations[0].ID+"/content/video", "", nil)
	if len(film) < 1000 || string(film[4:8]) != "ftyp" {
		t.Errorf("the video has %d bytes, want an MP4 file", len(film))
	}
	if resp, part := ask("GET", j.Generations[0].Output.VideoURL, "", nil); resp.StatusCode != 206 || string(part) != "ftyp" {
		t.Errorf("a range of the link = %d %q, want ftyp", resp.StatusCode, part)
	}
	stored, err := newS3(t, endpoint, t.TempDir()).Open(t.Context(), "videos/"+j.ID+"-1.mp4")
	if err != nil {
		t.Fatalf("Open in the bucket = %v", err)
	}
	defer stored.Close()
	if raw, err := io.ReadAll(stored); err != nil || !bytes.Equal(raw, film) {
		t.Errorf("the bucket holds %d bytes, %v, want the %d that were served", len(raw), err, len(film))
	}
}

package oracles

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/app/config"
	"sluice/internal/testkit/pgtest"
)

// fetch makes a request with the owner's key and returns the body of a 200.
func fetch(t *testing.T, method, url, key, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s %s = %d %.300s, %v, want 200", method, url, resp.StatusCode, raw, err)
	}
	return raw
}

// film makes a video and returns the path of its content.
func film(t *testing.T, g *gateway) string {
	t.Helper()
	var job struct {
		ID, Status  string
		Generations []struct{ ID string }
	}
	read := func(raw []byte) {
		t.Helper()
		if err := json.Unmarshal(raw, &job); err != nil || job.Status == "failed" {
			t.Fatalf("the job is %s, %v", raw, err)
		}
	}
	read(fetch(t, "POST", g.url+"/video/generations/jobs", g.owner, `{"prompt":"a lighthouse at dusk","width":480,"height":480,"n_seconds":1}`))
	for deadline := time.After(time.Minute); job.Status != "succeeded"; {
		select {
		case <-deadline:
			t.Fatalf("the job is %+v after a minute", job)
		case <-time.After(20 * time.Millisecond):
		}
		read(fetch(t, "GET", g.url+"/video/generations/jobs/"+job.ID, g.owner, ""))
	}
	return "/video/generations/" + job.Generations[0].ID + "/content/video"
}

// TestMigrateToS3 moves an installation to PostgreSQL and its videos to an object store.
func TestMigrateToS3(t *testing.T) {
	t.Parallel()
	url, endpoint, dir := pgtest.URL(t), startS3(t), t.TempDir()
	g, stop := startGatewayIn(t, dir, "")
	owner, content := g.owner, film(t, g)
	want := fetch(t, "GET", g.url+content, owner, "")
	stop()
	cfg, err := config.Load(config.Source{Path: filepath.Join(dir, "sluice.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	m := &app.Migration{From: cfg.Data, To: url, Storage: &config.Blob{
		Kind: "s3", Endpoint: endpoint, Region: "us-east-1", Bucket: bucket, Prefix: "sluice/", AccessKey: accessKey, SecretKey: secretKey,
	}}
	m.Storage.Bucket = "missing"
	if _, err := app.Migrate(t.Context(), cfg, m); err == nil || !strings.Contains(err.Error(), `there is no bucket "missing"`) || strings.Contains(err.Error(), secretKey) {
		t.Errorf("Migrate to a bucket that does not exist = %v, want an error", err)
	}
	m.Storage.Bucket = bucket
	for _, copied := range []int{1, 0} { // a second run finds it there
		moved, err := app.Migrate(t.Context(), cfg, m)
		if err != nil || moved.Files.Copied != copied || moved.Files.There != 1-copied || moved.Files.MissingCount+len(moved.Files.Damaged) != 0 {
			t.Fatalf("Migrate = %+v, %v, want %d files copied", moved, err, copied)
		}
	}
	g, _ = startGatewayIn(t, dir, fmt.Sprintf("database: %s\nblob: {kind: s3, endpoint: %q, region: us-east-1, bucket: %s, prefix: sluice/, access_key: %s, secret_key: %s}\n", url, endpoint, bucket, accessKey, secretKey))
	if got := fetch(t, "GET", g.url+content, owner, ""); string(got) != string(want) {
		t.Errorf("the video has %d bytes in the object store, want the %d of before", len(got), len(want))
	}
}

package azure_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"sluice/internal/video"
	"sluice/internal/video/azure"
	"sluice/internal/video/vendortest"
)

func TestVendor(t *testing.T) {
	t.Parallel()
	vendortest.Run(t, &vendortest.Wire{
		New:    func(base, key string) (video.Vendor, error) { return azure.New(base, key, "my-sora") },
		Prefix: "/openai/v1",
		Begin:  "POST /video/generations/jobs",
		Look:   "GET /video/generations/jobs/task_01",
		File:   "GET /video/generations/gen_01/content/video",
		Drop:   "DELETE /video/generations/jobs/task_01",
		Credential: func(r *http.Request) error {
			if r.Header.Get("Api-Key") != vendortest.Key || r.URL.Query().Get("api-version") != "preview" {
				return fmt.Errorf("headers %v, want the key and api-version=preview", r.Header)
			}
			return nil
		},
		Check: func(r *http.Request, body []byte) error {
			var got map[string]any
			if err := json.Unmarshal(body, &got); err != nil {
				return err
			}
			want := map[string]any{"model": "my-sora", "prompt": vendortest.Task().Prompt, "width": 720.0, "height": 1280.0, "n_seconds": 4.0, "n_variants": 1.0}
			if fmt.Sprint(got) != fmt.Sprint(want) || r.Header.Get("Content-Type") != "application/json" {
				return fmt.Errorf("the body is %s, want %v", body, want)
			}
			return nil
		},
		Begun:    `{"object":"video.generation.job","id":"task_01","status":"queued","created_at":1,"finished_at":null,"expires_at":null,"generations":[],"prompt":"p","model":"my-sora","n_variants":1,"n_seconds":4,"height":1280,"width":720,"failure_reason":null}`,
		Running:  `{"object":"video.generation.job","id":"task_01","status":"processing","created_at":1,"finished_at":null,"expires_at":null,"generations":[],"failure_reason":null}`,
		Done:     `{"object":"video.generation.job","id":"task_01","status":"succeeded","finished_at":2,"expires_at":3,"generations":[{"object":"video.generation","id":"gen_01","job_id":"task_01","width":720,"height":1280,"n_seconds":4}],"failure_reason":null}`,
		Filtered: `{"object":"video.generation.job","id":"task_01","status":"failed","generations":[],"failure_reason":"output_moderation"}`,
		Broken:   `{"object":"video.generation.job","id":"task_01","status":"failed","generations":[],"failure_reason":"internal_error"}`,
		Refused:  `{"error":{"code":"contentFilter","message":"Your task failed as a result of our safety system."}}`,
		Unfit:    `{"error":{"code":"invalid_request","message":"Resolution is not supported."}}`,
	})
}

func TestNew(t *testing.T) {
	t.Parallel()
	if _, err := azure.New("::", "k", "d"); err == nil {
		t.Error("New without an address = nil, want an error")
	}
}

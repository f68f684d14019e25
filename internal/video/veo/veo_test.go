package veo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"sluice/internal/video"
	"sluice/internal/video/vendortest"
)

func TestVendor(t *testing.T) {
	t.Parallel()
	const operation = "models/veo-3.1-generate-preview/operations/abc123"
	vendortest.Run(t, &vendortest.Wire{
		New:    func(base, key string) (video.Vendor, error) { return New(base, key, "veo-3.1-generate-preview") },
		Prefix: "/v1beta",
		Begin:  "POST /models/veo-3.1-generate-preview:predictLongRunning",
		Look:   "GET /" + operation,
		File:   "GET /files/xyz789:download",
		Credential: func(r *http.Request) error {
			if r.Header.Get("X-Goog-Api-Key") != vendortest.Key {
				return fmt.Errorf("headers %v, want the key", r.Header)
			}
			return nil
		},
		Check: func(_ *http.Request, body []byte) error {
			var got map[string]any
			if err := json.Unmarshal(body, &got); err != nil {
				return err
			}
			want := map[string]any{
				"instances":  []any{map[string]any{"prompt": vendortest.Task().Prompt}},
				"parameters": map[string]any{"aspectRatio": "9:16", "resolution": "720p", "durationSeconds": 4.0, "sampleCount": 1.0},
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("the body is %s, want %v", body, want)
			}
			return nil
		},
		Begun:    `{"name":"` + operation + `"}`,
		Running:  `{"name":"` + operation + `","metadata":{"@type":"type.googleapis.com/google.ai.generativelanguage.v1beta.PredictLongRunningMetadata"}}`,
		Done:     `{"name":"` + operation + `","done":true,"response":{"@type":"type.googleapis.com/google.ai.generativelanguage.v1beta.PredictLongRunningResponse","generateVideoResponse":{"generatedSamples":[{"video":{"uri":"BASE/files/xyz789:download?alt=media"}}]}}}`,
		Filtered: `{"name":"` + operation + `","done":true,"response":{"generateVideoResponse":{"raiMediaFilteredCount":1,"raiMediaFilteredReasons":["We encountered an issue with the prompt."]}}}`,
		Broken:   `{"name":"` + operation + `","done":true,"error":{"code":13,"message":"Internal error."}}`,
		Refused:  `{"error":{"code":400,"message":"The prompt could not be submitted: it violates usage guidelines.","status":"INVALID_ARGUMENT"}}`,
		Unfit:    `{"error":{"code":400,"message":"durationSeconds is out of bound.","status":"INVALID_ARGUMENT"}}`,
	})
}

// A request becomes the closest form and length that the vendor offers.
func TestForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		width, height, seconds int
		want                   parameters
		paid                   string // what has to be paid for
	}{
		{854, 480, 5, parameters{"16:9", "720p", 6, 1}, "1280 720 6"},
		{480, 480, 1, parameters{"16:9", "720p", 4, 1}, "1280 720 4"},
		{720, 1280, 7, parameters{"9:16", "720p", 8, 1}, "720 1280 8"},
		{1920, 1080, 4, parameters{"16:9", "1080p", 8, 1}, "1920 1080 8"},
		{1080, 1920, 20, parameters{"9:16", "1080p", 8, 1}, "1080 1920 8"},
	} {
		task := &video.Task{Width: tt.width, Height: tt.height, Seconds: tt.seconds}
		if got := form(task); got != tt.want {
			t.Errorf("form(%dx%d, %d s) = %+v, want %+v", tt.width, tt.height, tt.seconds, got, tt.want)
		}
		width, height, seconds := (&Vendor{}).Fit(task)
		if paid := fmt.Sprint(width, height, seconds); paid != tt.paid {
			t.Errorf("Fit(%dx%d, %d s) = %s, want %s", tt.width, tt.height, tt.seconds, paid, tt.paid)
		}
	}
}

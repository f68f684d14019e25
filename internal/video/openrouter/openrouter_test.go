package openrouter

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"sluice/internal/video"
	"sluice/internal/video/vendortest"
)

const models = `{"data":[
	{"id":"other/model","supported_resolutions":["4K"],"supported_aspect_ratios":["1:1"],"supported_durations":[20]},
	{"id":"google/veo-3.1","canonical_slug":"google/veo-3.1-20260320","supported_resolutions":["720p","1080p","4K"],"supported_aspect_ratios":["16:9","9:16"],"supported_sizes":["1280x720"],"supported_durations":[4,6,8],"supported_frame_images":["first_frame","last_frame"],"generate_audio":true,"seed":true,"pricing_skus":{"per-video-second":"0.40"}}]}`

func TestVendor(t *testing.T) {
	t.Parallel()
	vendortest.Run(t, &vendortest.Wire{
		New:    func(base, key string) (video.Vendor, error) { return New(base, key, "google/veo-3.1") },
		Prefix: "/api/v1",
		Begin:  "POST /videos",
		Look:   "GET /videos/job-abc123",
		File:   "GET /videos/job-abc123/content",
		Others: map[string]string{"GET /videos/models": models},
		Credential: func(r *http.Request) error {
			if r.Header.Get("Authorization") != "Bearer "+vendortest.Key {
				return fmt.Errorf("headers %v, want the key", r.Header)
			}
			return nil
		},
		Check: func(_ *http.Request, body []byte) error {
			return check(body, map[string]any{
				"model": "google/veo-3.1", "prompt": vendortest.Task().Prompt, "duration": 4.0, "resolution": "720p", "aspect_ratio": "9:16",
			})
		},
		Begun:    `{"id":"job-abc123","polling_url":"/api/v1/videos/job-abc123","status":"pending"}`,
		Running:  `{"id":"job-abc123","polling_url":"/api/v1/videos/job-abc123","status":"in_progress"}`,
		Done:     `{"id":"job-abc123","generation_id":"gen-1","polling_url":"/api/v1/videos/job-abc123","status":"completed","urls":["https://elsewhere.example/x.mp4"],"unsigned_urls":["BASE/videos/job-abc123/content?index=0"],"usage":{"cost":1.6,"is_byok":false}}`,
		Filtered: `{"id":"job-abc123","polling_url":"/api/v1/videos/job-abc123","status":"failed","error":"The prompt was blocked by content moderation."}`,
		Broken:   `{"id":"job-abc123","polling_url":"/api/v1/videos/job-abc123","status":"failed","error":"Provider error"}`,
		Refused:  `{"error":{"code":400,"message":"Input was flagged by content moderation"}}`,
		Unfit:    `{"error":{"code":400,"message":"Unsupported duration"}}`,
	})
}

// check compares the body of a request, member by member: the vendor refuses members that it does not know.
func check(body []byte, want map[string]any) error {
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil {
		return err
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("the body is %s, want %v", body, want)
	}
	return nil
}

// A job that ended without a video ends here, too.
func TestEnds(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]video.Reason{"failed": video.Provider, "cancelled": video.Provider, "expired": video.Expired} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"id":"j","status":"`+status+`"}`)
		}))
		v, err := New(s.URL, "k", "m/m")
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Look(t.Context(), "j")
		if r, ok := err.(*video.Refusal); !ok || r.Reason != want {
			t.Errorf("Look of a job that is %s = %v, want %s", status, err, want)
		}
		s.Close()
	}
}

// The list is read once for many jobs, and a job does not need it.
func TestList(t *testing.T) {
	t.Parallel()
	var paths []string
	broken := true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.Method+" "+r.URL.Path)
		switch {
		case r.Method == http.MethodPost:
			io.WriteString(w, `{"id":"j","status":"pending"}`)
		case broken:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			io.WriteString(w, models)
		}
	}))
	defer s.Close()
	v, err := New(s.URL, "k", "google/veo-3.1")
	if err != nil {
		t.Fatal(err)
	}
	begin := func() {
		if id, err := v.Begin(t.Context(), vendortest.Task()); err != nil || id != "j" {
			t.Errorf("Begin = %q, %v, want a job", id, err)
		}
	}
	begin()
	broken = false
	begin()
	begin()
	want := []string{"GET /videos/models", "POST /videos", "GET /videos/models", "POST /videos", "POST /videos"}
	if !slices.Equal(paths, want) {
		t.Errorf("the requests are %q, want %q", paths, want)
	}
}

// A request becomes the closest form that the model has.
func TestForm(t *testing.T) {
	t.Parallel()
	veo := offer{Resolutions: []string{"1080p", "720p", "4K"}, Ratios: []string{"16:9", "9:16"}, Durations: []int{8, 4, 6}}
	wide := offer{Resolutions: []string{"480p", "next"}, Ratios: []string{"auto", "21:9", "4:3", "1:1"}, Durations: []int{5, 10}}
	for _, tt := range []struct {
		of                     offer
		width, height, seconds int
		want                   request
	}{
		{veo, 854, 480, 5, request{Duration: 6, Resolution: "720p", AspectRatio: "16:9"}},
		{veo, 480, 854, 1, request{Duration: 4, Resolution: "720p", AspectRatio: "9:16"}},
		{veo, 1920, 1080, 20, request{Duration: 8, Resolution: "1080p", AspectRatio: "16:9"}},
		{veo, 1280, 720, 8, request{Duration: 8, Resolution: "720p", AspectRatio: "16:9"}},
		{wide, 854, 480, 5, request{Duration: 5, Resolution: "480p", AspectRatio: "21:9"}},
		{wide, 1920, 720, 6, request{Duration: 10, Resolution: "480p", AspectRatio: "21:9"}},
		{wide, 480, 480, 11, request{Duration: 10, Resolution: "480p", AspectRatio: "1:1"}},
		{offer{}, 854, 480, 7, request{Duration: 7, Resolution: "480p", AspectRatio: "16:9"}},
		{offer{}, 1080, 1920, 20, request{Duration: 20, Resolution: "1080p", AspectRatio: "9:16"}},
		{offer{}, 720, 720, 3, request{Duration: 3, Resolution: "720p", AspectRatio: "1:1"}},
	} {
		if got := tt.of.form(&video.Task{Width: tt.width, Height: tt.height, Seconds: tt.seconds}); got != tt.want {
			t.Errorf("form(%dx%d, %d s) of %v = %+v, want %+v", tt.width, tt.height, tt.seconds, tt.of, got, tt.want)
		}
	}
}

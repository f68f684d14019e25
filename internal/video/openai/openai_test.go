package openai

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/video"
	"sluice/internal/video/vendortest"
)

func TestVendor(t *testing.T) {
	t.Parallel()
	vendortest.Run(t, &vendortest.Wire{
		New:    func(base, key string) (video.Vendor, error) { return New(base, key, "sora-2") },
		Prefix: "/v1",
		Begin:  "POST /videos",
		Look:   "GET /videos/video_123",
		File:   "GET /videos/video_123/content",
		Drop:   "DELETE /videos/video_123",
		Credential: func(r *http.Request) error {
			if r.Header.Get("Authorization") != "Bearer "+vendortest.Key {
				return fmt.Errorf("headers %v, want the key", r.Header)
			}
			return nil
		},
		Check:    checkForm,
		Begun:    `{"id":"video_123","object":"video","created_at":1,"status":"queued","model":"sora-2","progress":0,"seconds":"4","size":"720x1280","error":null}`,
		Running:  `{"id":"video_123","object":"video","created_at":1,"status":"in_progress","model":"sora-2","progress":33,"seconds":"4","size":"720x1280","error":null}`,
		Done:     `{"id":"video_123","object":"video","created_at":1,"completed_at":2,"expires_at":3,"status":"completed","model":"sora-2","progress":100,"seconds":"4","size":"720x1280","error":null}`,
		Filtered: `{"id":"video_123","object":"video","status":"failed","progress":0,"error":{"code":"moderation_blocked","message":"Your request was blocked by our moderation system."}}`,
		Broken:   `{"id":"video_123","object":"video","status":"failed","progress":0,"error":{"code":"video_generation_failed","message":"Something broke."}}`,
		Refused:  `{"error":{"message":"Your request was blocked.","type":"invalid_request_error","param":null,"code":"content_policy_violation"}}`,
		Unfit:    `{"error":{"message":"Invalid size.","type":"invalid_request_error","param":"size","code":"invalid_value"}}`,
	})
}

// checkForm reads the multipart form of a request.
func checkForm(r *http.Request, body []byte) error {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	form, err := multipart.NewReader(strings.NewReader(string(body)), params["boundary"]).ReadForm(1 << 20)
	if err != nil && err != io.EOF {
		return err
	}
	want := map[string][]string{"model": {"sora-2"}, "prompt": {vendortest.Task().Prompt}, "size": {"720x1280"}, "seconds": {"4"}}
	if fmt.Sprint(form.Value) != fmt.Sprint(want) {
		return fmt.Errorf("the form is %v, want %v", form.Value, want)
	}
	return nil
}

// A request becomes the closest size and length that the vendor offers.
func TestForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		model                  string
		width, height, seconds int
		size, length           string
	}{
		{"sora-2", 854, 480, 5, "1280x720", "8"},
		{"sora-2", 480, 480, 1, "1280x720", "4"},
		{"sora-2", 480, 854, 9, "720x1280", "12"},
		{"sora-2", 1920, 1080, 20, "1280x720", "12"},
		{"sora-2-pro", 1920, 1080, 8, "1792x1024", "8"},
		{"sora-2-pro", 1080, 1920, 4, "1024x1792", "4"},
		{"sora-2-pro", 1280, 720, 4, "1280x720", "4"},
	} {
		task := &video.Task{Width: tt.width, Height: tt.height, Seconds: tt.seconds}
		width, height, paid := (&Vendor{model: tt.model}).Fit(task)
		if size := fmt.Sprintf("%dx%d", width, height); size != tt.size || strconv.Itoa(paid) != tt.length {
			t.Errorf("%s: Fit(%dx%d, %d s) = %s, %d s, want %s, %s s", tt.model, tt.width, tt.height, tt.seconds, size, paid, tt.size, tt.length)
		}
		if size, length := (&Vendor{model: tt.model}).size(task), seconds(task); size != tt.size || length != tt.length {
			t.Errorf("%s: %dx%d, %d s became %s, %s s, want %s, %s s", tt.model, tt.width, tt.height, tt.seconds, size, length, tt.size, tt.length)
		}
	}
}

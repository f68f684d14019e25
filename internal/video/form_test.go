package video

import (
	"strings"
	"testing"

	"sluice/internal/kit/fault"
)

// part is a part of a form with the boundary B.
func part(disposition, value string) string {
	return "--B\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + value + "\r\n"
}

func TestParseVideo(t *testing.T) {
	t.Parallel()
	const form = "multipart/form-data; boundary=B"
	prompt := part(`name="prompt"`, "a lighthouse")
	plain := Request{Prompt: "a lighthouse", Model: "video-default", Width: 854, Height: 480, Seconds: 5}
	sized := plain
	sized.Width, sized.Height, sized.Seconds = 720, 1280, 8
	for _, tt := range []struct {
		kind, body string
		want       Request
	}{
		{"application/json", `{"prompt":"a lighthouse"}`, plain},
		{"", `{"prompt":"a lighthouse","input_reference":null,"size":null,"seconds":null,"n_seconds":3,"width":480}`, plain},
		{"application/json", `{"prompt":"a lighthouse","size":"720x1280","seconds":"8"}`, sized},
		{"application/json", `{"prompt":"a lighthouse","size":"720x1280","seconds":8}`, sized},
		{form, prompt + "--B--\r\n", plain},
		{form, prompt + part(`name="size"`, "720x1280") + part(`name="seconds"`, "8") + part(`name="model"`, "video-default") + part(`name="other"`, "x") + "--B--", sized},
	} {
		if got, err := ParseVideo(tt.kind, []byte(tt.body), "video-default"); err != nil || got != tt.want {
			t.Errorf("ParseVideo(%q, %.80q) = %+v, %v, want %+v", tt.kind, tt.body, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ kind, body, param, says string }{
		{"", `{"seconds":"4"}`, "prompt", "required"},
		{"", `{"prompt":"x","model":"sora-2"}`, "model", `the only one is "video-default"`},
		{"", `{"prompt":"x","size":"1792x1024"}`, "size", "each one of 480, 720"},
		{"", `{"prompt":"x","size":720}`, "size", "got 720"},
		{"", `{"prompt":"x","size":"720"}`, "size", `got "720"`},
		{"", `{"prompt":"x","size":"720x1280x2"}`, "size", "got"},
		{"", `{"prompt":"x","seconds":"21"}`, "seconds", `1 to 20; got "21"`},
		{"", `{"prompt":"x","seconds":"four"}`, "seconds", `got "four"`},
		{"", `{"prompt":"x","seconds":""}`, "seconds", `got ""`},
		{"", `{"prompt":"x","seconds":"\"4\""}`, "seconds", "got"},
		{"", `{"prompt":"x","seconds":[4]}`, "seconds", "got [4]"},
		{"", `{"prompt":"x","seconds":"4","seconds":"8"}`, "seconds", "twice"},
		{"", `{"prompt":"x","input_reference":{"image_url":"https://example.com/x.png"}}`, "input_reference", "Leave the field out"},
		{form, prompt + part(`name="input_reference"; filename="x.png"`, "\xff\xd8") + "--B--", "input_reference", "Leave the field out"},
		{form, prompt + part(`name="input_reference[file_id]"`, "f") + part(`name="input_reference[image_url]"`, "u") + "--B--", "input_reference", "Leave the field out"},
		{form, prompt + prompt + "--B--", "prompt", "twice"},
		{form, part(`name="prompt"`, "\xff") + "--B--", "prompt", "not UTF-8"},
		{form, prompt, "", "multipart/form-data"},
		{"multipart/form-data", prompt + "--B--", "", "multipart/form-data"},
		{form, `{"prompt":"x"}`, "", "multipart/form-data"},
		{form, prompt + strings.Repeat(part(`name="input_reference"`, "x"), maxParts) + "--B--", "", "more than 32 fields"},
		{"application/json", prompt + "--B--", "", "Malformed JSON"},
	} {
		_, err := ParseVideo(tt.kind, []byte(tt.body), "video-default")
		f := fault.From(err)
		if f == nil || f.Kind != fault.Invalid || f.Param != tt.param || !strings.Contains(f.Message, tt.says) {
			t.Errorf("ParseVideo(%q, %.120q) = %v, want a fault at %q that says %q", tt.kind, tt.body, err, tt.param, tt.says)
		}
	}
}

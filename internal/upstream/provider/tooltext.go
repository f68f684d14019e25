package provider

import (
	"bytes"
	"encoding/json"
	"strings"

	"sluice/internal/kit/jsonscan"
)

// ObjectArguments returns the arguments of a tool call as a JSON object, for dialects that take nothing else.
// A model may have written no arguments, or text that is not an object: that text becomes the member
// arguments of an object, so that the next model still sees it.
func ObjectArguments(s string) json.RawMessage {
	s = strings.TrimSpace(s)
	switch {
	case s == "":
		return json.RawMessage("{}")
	case s[0] == '{' && json.Valid([]byte(s)):
		return json.RawMessage(s)
	}
	return append(jsonscan.AppendQuoted([]byte(`{"arguments":`), s), '}')
}

// ArgumentsText returns the text of arguments that came as JSON, without white space. Arguments that are
// missing, null or not JSON become an empty object: callers parse the text and must not fail on it.
func ArgumentsText(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || string(raw) == "null" || json.Compact(&b, raw) != nil {
		return "{}"
	}
	return b.String()
}

// DataURL returns the media type, in lower case, and the base64 of a data: URL. It reports false if the URL
// is of another kind.
func DataURL(url string) (mediaType, data string, ok bool) {
	head, data, ok := strings.Cut(url, ",")
	if !ok || !isDataURL(head) {
		return "", "", false
	}
	mediaType, _, _ = strings.Cut(strings.ToLower(head[len("data:"):]), ";")
	return mediaType, data, true
}

// ImageData is DataURL for images. It corrects image/jpg, which clients write and vendors refuse.
func ImageData(url string) (mediaType, data string, ok bool) {
	mediaType, data, ok = DataURL(url)
	if mediaType == "image/jpg" {
		mediaType = "image/jpeg"
	}
	return mediaType, data, ok
}

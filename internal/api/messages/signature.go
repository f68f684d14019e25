package messages

import (
	"bytes"

	"sluice/internal/prompt/chat"
)

// The dialect signs thinking, and clients send it back with its signature. Thinking of a model of another dialect has
// none, so it gets one of ours. It proves nothing. It tells thinking that only its own model can use from thinking that
// an upstream of this dialect has signed: that one checks signatures, and would refuse ours.

// signaturePrefix is what our signatures begin with. It is base64, like those of the dialect.
const signaturePrefix = "c2x1aWNl"

// appendSignature appends our signature of a reply, which has no characters that JSON escapes.
func appendSignature(b []byte, requestID string) []byte {
	return append(append(b, signaturePrefix...), requestID...)
}

// isOurs reports whether a signature, given as JSON, is ours.
func isOurs(v chat.Value) bool { return bytes.HasPrefix(v.Inside(), []byte(signaturePrefix)) }

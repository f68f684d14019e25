package inference

import (
	"crypto/sha256"
	"encoding/hex"

	"sluice/internal/prompt/chat"
)

const (
	// openingOf is how many bytes of each message are looked at, and openingMost how many messages.
	openingOf   = 256
	openingMost = 8
)

// Conversation returns a name for the conversation that a request belongs to, which is the same for all of its requests, on
// every node: a hash of the session or, without one, of what opens the conversation. The id of the account is hashed, too,
// and leaves nobody a way back: vendors are told the name. It is empty for a request without messages.
func Conversation(accountID, session string, req *chat.Request) string {
	if req == nil || len(req.Messages) == 0 {
		return ""
	}
	var room [2 << 10]byte
	b := append(append(room[:0], accountID...), 0)
	if session != "" {
		b = append(b, session...)
	} else {
		b = append(b, 0) // no session is written so
		opening := req.Opening()
		for i := range opening[:min(len(opening), openingMost)] {
			m := &opening[i]
			b = m.Content.AppendSample(append(b, byte(m.Role)), openingOf)
		}
	}
	sum := sha256.Sum256(b)
	var name [32]byte
	hex.Encode(name[:], sum[:16])
	return string(name[:])
}

package resume

import (
	"encoding/base64"
	"encoding/binary"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/internal/kit/seal"
)

const (
	// NodePath is where a node answers the others.
	NodePath = "/nodes/stream"
	// nodeHeader is the header of a request with the question.
	nodeHeader = "X-Sluice-Node"
	// maxQuestion is how long a question may be, sealed and encoded.
	maxQuestion = 1 << 10
	// window is how far the time of a question may be from that of the node that answers it. Nodes go by one clock, each by
	// what it last heard of it.
	window = 30 * time.Second
	// maxNonces is how many questions are remembered of each two windows; more are not answered.
	maxNonces = 100_000
)

// question is what a node asks the one that holds a stream. It is sealed with a key that only the nodes of an installation
// have, for one node, with the time and a number that is used once: nobody else can ask, and a copy of a request is
// worth nothing.
type question struct {
	at      time.Time
	nonce   string
	account string
	after   int // the event that the reader has
	stream  string
	cut     bool // ends the call; the stream is not wanted
}

// questionBox returns the box of the questions to a node.
func questionBox(key seal.Key, to string) seal.Box { return key.Box("node question", to, "") }

// seal returns the question as the value of a header.
func (q *question) seal(key seal.Key, to string) string {
	verb := "read"
	if q.cut {
		verb = "cut"
	}
	text := strings.Join([]string{verb, strconv.FormatInt(q.at.UnixMilli(), 10), q.nonce, q.account, strconv.Itoa(q.after), q.stream}, " ")
	return base64.RawURLEncoding.EncodeToString(questionBox(key, to).Seal([]byte(text)))
}

// openQuestion reverses seal. It reports false for what another node has not sealed for this one.
func openQuestion(key seal.Key, to, value string) (q question, ok bool) {
	if len(value) > maxQuestion {
		return q, false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return q, false
	}
	text, err := questionBox(key, to).Open(sealed)
	if err != nil {
		return q, false
	}
	f := strings.Split(string(text), " ")
	if len(f) != 6 {
		return q, false
	}
	at, err := strconv.ParseInt(f[1], 10, 64)
	after, wrong := strconv.Atoi(f[4])
	if err != nil || wrong != nil {
		return q, false
	}
	return question{at: time.UnixMilli(at), nonce: f[2], account: f[3], after: after, stream: f[5], cut: f[0] == "cut"}, true
}

// nonces remembers the questions that were answered for as long as they could be asked again.
type nonces struct {
	mu         sync.Mutex // guards the fields below
	turned     time.Time  // when young began
	young, old map[string]struct{}
}

// first reports whether a question comes for the first time.
func (n *nonces) first(nonce string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := time.Now(); now.Sub(n.turned) >= 2*window {
		n.old, n.young = n.young, map[string]struct{}{}
		n.turned = now
	}
	_, young := n.young[nonce]
	_, old := n.old[nonce]
	if young || old || len(n.young) >= maxNonces {
		return false
	}
	n.young[nonce] = struct{}{}
	return true
}

// What an answer says.
const (
	someMore  = 'm' // with events, or without if there were none in time
	noMore    = 'e' // the stream was read to its end, or its call was ended
	takenOver = 't'
	lost      = 'l'
	unknown   = 'u' // there is no such stream of the account here
	refused   = 'r' // with a message about Last-Event-ID
	busy      = 'b' // too many streams are read here
)

// answer is a part of a reply.
type answer struct {
	what   byte
	events []byte
}

// frames are the answers to a question, each as four bytes with its length and so many that are sealed. A frame is bound
// to its question and its place, so that none can be left out, repeated, or stand for another. The end is a frame as well:
// a reply that breaks off has none.
type frames struct {
	key    seal.Key
	nonce  string
	number int // of frames so far
	from   io.Reader
	buf    []byte
}

const (
	lengthBytes = 4
	// maxFrame is how long a frame may be: a piece, what it says, and what sealing adds.
	maxFrame = piece + 1 + 28
)

// box returns the box of the next frame.
func (f *frames) box() seal.Box {
	f.number++
	return f.key.Box("node answer", f.nonce+" "+strconv.Itoa(f.number), "")
}

// add appends a frame.
func (f *frames) add(to []byte, what byte, events []byte) []byte {
	f.buf = append(append(f.buf[:0], what), events...)
	sealed := f.box().Seal(f.buf)
	return append(binary.BigEndian.AppendUint32(to, uint32(len(sealed))), sealed...)
}

// next reads a frame. Its events are good until the next call.
func (f *frames) next() (answer, error) {
	var length [lengthBytes]byte
	if _, err := io.ReadFull(f.from, length[:]); err != nil {
		return answer{}, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxFrame {
		return answer{}, seal.ErrUnreadable
	}
	if int(n) > cap(f.buf) {
		f.buf = make([]byte, n)
	}
	f.buf = f.buf[:n]
	if _, err := io.ReadFull(f.from, f.buf); err != nil {
		return answer{}, err
	}
	text, err := f.box().OpenInPlace(f.buf)
	if err != nil {
		return answer{}, err
	}
	if len(text) == 0 {
		return answer{}, seal.ErrUnreadable
	}
	return answer{text[0], text[1:]}, nil
}

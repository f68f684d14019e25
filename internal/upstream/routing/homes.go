package routing

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/seal"
)

const (
	// mostHomes is how many conversations the table has, in sets of homeWays: 960 KiB.
	mostHomes = 57_344
	homeWays  = 7
	homeSets  = mostHomes / homeWays
	// warmMinutes is how long a conversation stays with its target after its last call. Vendors keep prompts for five minutes
	// up to a day; one that comes back later goes to its favourite.
	warmMinutes = int(stickFor / time.Minute)
	// clockMinutes is how far an entry may be ahead: calls do not end in the order in which they began.
	clockMinutes = 5
)

// homes remembers at which target conversations were last answered: who has a home that is not its favourite must be known,
// so that it stays where it is warm, and of the others it tells new conversations from old ones.
//
// It is a table of a fixed size, made when it is first needed. In a full set the oldest conversation is forgotten, those
// that are at their favourite first: they find it again by themselves.
type homes struct {
	seed   uint64       // of the hash of conversations; the same on all nodes
	block  cipher.Block // makes ids of conversations that other nodes can read, and nobody else
	shared *sharing     // nil: this process is the only one
	table  atomic.Pointer[[homeSets]homeSet]
}

type homeSet struct {
	mu   sync.Mutex // guards ways
	ways [homeWays]home
}

// home is where a conversation was last answered.
type home struct {
	conversation uint64 // with its model; 0: the entry is free
	target       uint32 // its id
	minute       uint16 // of the last call, since 1970 and without its upper bits
	away         bool   // it is not the favourite
}

func newHomes(key seal.Key, shared *sharing) *homes {
	secret := key.Box("affinity", "", "").ID()
	block, err := aes.NewCipher(secret[:aes.BlockSize])
	if err != nil {
		panic(err) // only for key sizes that AES does not have
	}
	return &homes{seed: binary.LittleEndian.Uint64(secret[aes.BlockSize:]) | 1, block: block, shared: shared}
}

func (h *homes) hash() hasher { return hasher{h: h.seed, seed: h.seed} }

// minuteOf returns the time as an entry has it.
func minuteOf(now time.Time) uint16 { return uint16(now.Unix() / 60) }

// set returns the set of a conversation, or nil if the table is not made yet.
func (h *homes) set(conversation uint64) *homeSet {
	table := h.table.Load()
	if table == nil {
		return nil
	}
	return &table[conversation%homeSets]
}

// find returns the id of the target at which a conversation was last answered, 0 if that is not known, and whether it may
// still be warm there.
func (h *homes) find(conversation uint64, now time.Time) (target uint32, warm bool) {
	set := h.set(conversation)
	if set == nil {
		return 0, false
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	for i := range set.ways {
		if w := &set.ways[i]; w.conversation == conversation {
			return w.target, w.idle(minuteOf(now)) <= warmMinutes
		}
	}
	return 0, false
}

// put remembers the home of a conversation, and returns the entry that it had; the zero value: none.
func (h *homes) put(next home) (before home) {
	if h.table.Load() == nil {
		h.table.CompareAndSwap(nil, new([homeSets]homeSet))
	}
	set := h.set(next.conversation)
	set.mu.Lock()
	defer set.mu.Unlock()
	oldest, most := 0, -1
	for i := range set.ways {
		w := &set.ways[i]
		if w.conversation == next.conversation {
			before, *w = *w, next
			return before
		}
		if age := w.age(next.minute); age > most {
			oldest, most = i, age
		}
	}
	set.ways[oldest] = next
	return home{}
}

// age returns how soon an entry is replaced: a free one first, then those that are not warm any more, then those of which
// the favourite is the home.
func (w *home) age(minute uint16) int {
	idle := w.idle(minute)
	switch {
	case w.conversation == 0:
		return 3 << 16
	case idle > warmMinutes:
		return 2<<16 + idle
	case !w.away:
		return 1<<16 + idle
	}
	return idle
}

// idle returns how many minutes ago the last call was.
func (w *home) idle(minute uint16) int {
	switch idle := int(int16(minute - w.minute)); {
	case idle < -clockMinutes: // so long ago that the minutes have come round
		return 1 << 15
	default:
		return max(0, idle)
	}
}

// stayed remembers the target of an attempt that has answered. Other nodes are told of a home that they would not find by
// themselves.
func (h *homes) stayed(a *Attempt, now time.Time) {
	next := home{conversation: a.conversation, target: a.Target.id, minute: minuteOf(now), away: a.strays}
	before := h.put(next)
	moved := before.target != 0 && before.target != next.target
	if h.shared != nil && (moved || next.away && !before.away) {
		h.tell(next, before.target == 0 && !a.follows)
	}
}

// What other nodes are told of a home stands where they are told models: a model's id has no space. Of a conversation that
// has just begun it says so.
const (
	homeText  = " home "
	bornThere = " new"
)

// tell queues a home for the other nodes.
func (h *homes) tell(next home, born bool) {
	text := homeText + strconv.FormatUint(uint64(next.target), 16)
	if born {
		text += bornThere
	}
	h.shared.put(Conversation{ID: h.id(next.conversation), Model: text, Moved: true})
}

// id encrypts a conversation. It is a hash already, which together with a model's name and the beginning of a conversation
// could still be compared.
func (h *homes) id(conversation uint64) (id ConversationID) {
	binary.LittleEndian.PutUint64(id[:], conversation)
	h.block.Encrypt(id[:], id[:])
	return id
}

// learn takes over a home that another node tells of, and reports whether it is one. If this node has seen the conversation
// at another target while the other one thought that it began, the earlier place wins.
func (h *homes) learn(c *Conversation, now time.Time) bool {
	text, ok := strings.CutPrefix(c.Model, homeText)
	if !ok {
		return false
	}
	text, born := strings.CutSuffix(text, bornThere)
	target, err := strconv.ParseUint(text, 16, 32)
	var plain ConversationID
	h.block.Decrypt(plain[:], c.ID[:])
	conversation, rest := binary.LittleEndian.Uint64(plain[:]), binary.LittleEndian.Uint64(plain[8:])
	if err != nil || rest != 0 || conversation == 0 {
		return true // of a service with another key
	}
	next := home{conversation: conversation, target: uint32(target), minute: minuteOf(now), away: true}
	if last, warm := h.find(conversation, now); born && warm && last != next.target {
		next.target = last
		h.tell(next, false)
		return true
	}
	h.put(next)
	return true
}

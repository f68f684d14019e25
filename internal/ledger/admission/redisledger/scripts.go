package redisledger

import (
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
)

// The scripts. Those about one account share a beginning.
// Redis has no includes, so a shared beginning is joined to each script here, and a function it
// defines is compiled with every script that needs it.
var (
	//go:embed scripts/account.lua
	accountLua string
	//go:embed scripts/take.lua
	takeLua string
	//go:embed scripts/peek.lua
	peekLua string
	//go:embed scripts/free.lua
	freeLua string
	//go:embed scripts/post.lua
	postLua string
	//go:embed scripts/renew.lua
	renewLua string
	//go:embed scripts/revoke.lua
	revokeLua string
	//go:embed scripts/units.lua
	unitsLua string
	//go:embed scripts/count.lua
	countLua string
	//go:embed scripts/beat.lua
	beatLua string
	//go:embed scripts/quota.lua
	quotaLua string

	takeScript   = newScript(accountLua + takeLua)
	peekScript   = newScript(accountLua + peekLua)
	freeScript   = newScript(accountLua + unitsLua + freeLua)
	postScript   = newScript(accountLua + postLua)
	renewScript  = newScript(renewLua)
	revokeScript = newScript(revokeLua)
	countScript  = newScript(unitsLua + countLua)
	beatScript   = newScript(beatLua)
	quotaScript  = newScript(unitsLua + quotaLua)
)

// scripts are all of them.
func scripts() []*script {
	return []*script{takeScript, peekScript, freeScript, postScript, renewScript, revokeScript, countScript, beatScript, quotaScript}
}

// script is a program that Redis runs as one step. Redis knows it by the hash of its text.
// EVALSHA sends 40 bytes instead of the whole text.
type script struct{ text, hash string }

// newScript computes the name of a script. Redis knows the script once its text was loaded.
func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) // the name that Redis gives it; nothing secret depends on it
	return &script{text, hex.EncodeToString(sum[:])}
}

// order is one script to run.
// All keys of an order are in one hash slot, so that a cluster can run it on one server.
type order struct {
	script *script
	keys   []string
	args   []string
	errand *errand // is told the reply, if not nil
}

// recordSize is the number of bytes of an entry in an argument.
const recordSize = 3 * 8

// weight says about how long Redis runs the script: one for each slot, each entry, and each short word.
func (o *order) weight() (n int) {
	for _, a := range o.args {
		n += max(1, len(a)/recordSize)
	}
	return n
}

// answer is what a script returned: a text, or a number in decimal digits.
type answer struct {
	text string
	err  error
}

// reply is what take and peek return.
// Scripts return it as ten doubles in the order of the fields; see readReply. Times are
// milliseconds of the clock of Redis.
type reply struct {
	// code is 0 if the call was admitted, or the admission.Resource that is in the way, and used is how much of
	// it is taken; of an admitted call, how many slots are. wait is how long until there is room, in milliseconds: 0 means
	// that only the end of another call makes room, and a negative number that nothing does. at is
	// the time of the new entries.
	code, wait, used, at       int64
	requests, tokens           int64 // what the windows hold
	requestsReset, tokensReset int64 // milliseconds until they are empty
	epoch                      int64 // negative: the account is marked
	units                      int64 // how much was added to its units in all; 0: not known
}

var errOtherForm = errors.New("the reply of a script has another form: nodes of different versions share this Redis")

// readReply decodes the reply of take or peek. A length other than ten numbers can only come from
// scripts of another version, which is worth a clear error during an upgrade.
func readReply(a answer) (reply, error) {
	if a.err != nil {
		return reply{}, a.err
	}
	if len(a.text) != 10*8 {
		return reply{}, errOtherForm
	}
	var v [10]int64
	for i := range v {
		v[i] = numberAt(a.text, i)
	}
	return reply{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]}, nil
}

// numberAt returns one of a string of numbers.
// Doubles are exact up to 2^53, far above any count or time in milliseconds or microseconds.
func numberAt(text string, i int) int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[i*8 : i*8+8]))))
}

// accountOrder returns an order about an account: its keys, the numbers as one argument, and the rest. The
// words of the order are parts of one string, because they would be half of what a call allocates.
// A slot of 0 leaves the last argument empty.
func (l *Ledger) accountOrder(s *script, accountID string, slot uint64, numbers ...int64) order {
	var room [384]byte
	text, ends := room[:0], [5]int{}
	for i, name := range accountKeys {
		text = append(append(append(append(text, l.opts.Prefix...), '{'), accountID...), name...)
		ends[i] = len(text)
	}
	for _, n := range numbers {
		text = appendNumber(text, n)
	}
	ends[3] = len(text)
	if slot != 0 {
		text = l.appendSlot(text, slot)
	}
	ends[4] = len(text)
	whole, words, start := string(text), make([]string, len(ends)), 0
	for i, end := range ends {
		words[i], start = whole[start:end], end
	}
	return order{script: s, keys: words[:3], args: words[3:]}
}

// accountKeys are the ends of the keys of an account, in the order of account.lua. The braces put them into
// one hash slot of a Redis Cluster.
var accountKeys = [...]string{"}:window", "}:slots", "}:epoch"}

// keys returns the keys of an account.
func (l *Ledger) keys(accountID string) (keys []string) {
	for _, name := range accountKeys {
		keys = append(keys, l.opts.Prefix+"{"+accountID+name)
	}
	return keys
}

// epochKey returns the key of an account's epoch, alone.
func (l *Ledger) epochKey(accountID string) []string { return l.keys(accountID)[2:] }

// tableKey returns the key of what tells new data from lost data.
func (l *Ledger) tableKey() []string { return []string{l.opts.Prefix + "{nodes}:table"} }

// appendSlot appends the name of a slot in Redis. It begins with the node, and with a random word of this
// process, so that a node that restarts does not take its old calls for new ones.
func (l *Ledger) appendSlot(b []byte, slot uint64) []byte {
	return strconv.AppendUint(append(b, l.life...), slot, 36)
}

// appendNumber appends a number as scripts read it: a double, least byte first.
func appendNumber(b []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
}

func itoa(v int64) string { return strconv.FormatInt(v, 10) }

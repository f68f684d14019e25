package redisledger

import (
	"context"
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/redis/rueidis"
)

// The scripts. Those about one account share a beginning.
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
	//go:embed scripts/leave.lua
	leaveLua string

	takeScript   = newScript(accountLua + takeLua)
	peekScript   = newScript(accountLua + peekLua)
	freeScript   = newScript(accountLua + unitsLua + freeLua)
	postScript   = newScript(accountLua + postLua)
	renewScript  = newScript(renewLua)
	revokeScript = newScript(revokeLua)
	countScript  = newScript(unitsLua + countLua)
	beatScript   = newScript(beatLua)
	leaveScript  = newScript(leaveLua)
)

// scripts are all of them.
func scripts() []*script {
	return []*script{takeScript, peekScript, freeScript, postScript, renewScript, revokeScript, countScript, beatScript, leaveScript}
}

// load makes every server know all scripts. They are loaded together, because in a batch of which a server
// knows only some scripts those would overtake the others.
func load(ctx context.Context, c rueidis.Client) {
	for _, node := range c.Nodes() {
		var commands rueidis.Commands
		for _, s := range scripts() {
			commands = append(commands, node.B().ScriptLoad().Script(s.text).Build())
		}
		node.DoMulti(ctx, commands...) // whatever fails is sent again when it is needed
	}
}

// script is a program that Redis runs as one step. Redis knows it by the hash of its text.
type script struct{ text, hash string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) // the name that Redis gives it; nothing secret depends on it
	return &script{text, hex.EncodeToString(sum[:])}
}

// order is one script to run.
type order struct {
	script *script
	keys   []string
	args   []string
	done   func(rueidis.RedisResult) // called with the reply, if not nil
}

// run runs scripts in one round trip, in order where their keys are in one hash slot. A server that does
// not know a script, because it has restarted, is given its text.
func run(ctx context.Context, c rueidis.Client, orders []order) []rueidis.RedisResult {
	commands := make(rueidis.Commands, len(orders))
	for i, o := range orders {
		commands[i] = c.B().Evalsha().Sha1(o.script.hash).Numkeys(int64(len(o.keys))).Key(o.keys...).Arg(o.args...).Build()
	}
	var results []rueidis.RedisResult
	if len(commands) == 1 {
		results = []rueidis.RedisResult{c.Do(ctx, commands[0])}
	} else {
		results = c.DoMulti(ctx, commands...)
	}
	var again []int
	for i := range results {
		if e, ok := rueidis.IsRedisErr(results[i].Error()); ok && e.IsNoScript() {
			again = append(again, i)
		}
	}
	if len(again) == 0 {
		return results
	}
	load(ctx, c)
	commands = commands[:0]
	for _, i := range again {
		o := orders[i]
		commands = append(commands, c.B().Eval().Script(o.script.text).Numkeys(int64(len(o.keys))).Key(o.keys...).Arg(o.args...).Build())
	}
	for n, r := range c.DoMulti(ctx, commands...) {
		results[again[n]] = r
	}
	return results
}

// reply is what take and peek return.
type reply struct {
	code, wait, used, at       int64
	requests, tokens           int64 // what the windows hold
	requestsReset, tokensReset int64 // milliseconds until they are empty
	epoch                      int64 // negative: the account is marked
	units                      int64 // how much was added to its units in all; 0: not known
}

func readReply(r rueidis.RedisResult) (reply, error) {
	v, err := r.AsIntSlice()
	if err != nil {
		return reply{}, err
	}
	if len(v) != 10 {
		return reply{}, errors.New("the reply of a script has another form: nodes of different versions share this Redis")
	}
	return reply{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]}, nil
}

// keys returns the keys of an account, in the order of account.lua. The braces put them into one hash slot
// of a Redis Cluster.
func (l *Ledger) keys(accountID string) []string {
	base := l.opts.Prefix + "{" + accountID + "}:"
	return []string{base + "sums", base + "entries", base + "slots", base + "epoch"}
}

// nodeKeys returns the keys of the table of nodes.
func (l *Ledger) nodeKeys() []string {
	return []string{l.opts.Prefix + "{nodes}:beats", l.opts.Prefix + "{nodes}:table"}
}

// slotID returns the name of a slot in Redis. It begins with the node, and with a random word of this
// process, so that a node that restarts does not take its old calls for new ones.
func (l *Ledger) slotID(slot uint64) string {
	return l.life + strconv.FormatUint(slot, 36)
}

func itoa(v int64) string { return strconv.FormatInt(v, 10) }

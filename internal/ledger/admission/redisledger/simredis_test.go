package redisledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// simRedis is a Redis server in this process. It runs the scripts as they are, in an interpreter of the same
// Lua, on the commands that they use. Its clock is the test's. TestSimulatedSuite holds it against the suite
// that the real server passes.
type simRedis struct {
	mu     sync.Mutex // held while a script runs, which takes no time on the test's clock
	now    func() time.Time
	lua    *lua.LState
	call   map[string]func(args []string) lua.LValue
	text   func(*script) string // what it runs for a script; a simulation may break it here
	loaded map[*script]*lua.LFunction
	keys   map[string]*simValue
	moved  int // bytes that the last script has read and written
}

// simValue is the value of a key: text, a hash, or a sorted set.
type simValue struct {
	text    []byte
	hash    map[string]string
	scores  map[string]float64
	expires time.Time // zero: never
}

func newSimRedis(now func() time.Time, text func(*script) string) *simRedis {
	r := &simRedis{now: now, text: text, loaded: map[*script]*lua.LFunction{}, keys: map[string]*simValue{}}
	r.lua = lua.NewState()
	r.call = map[string]func([]string) lua.LValue{
		"TIME": r.time, "GET": r.get, "SET": r.set, "GETRANGE": r.getRange, "SETRANGE": r.setRange,
		"DEL": r.del, "PEXPIRE": r.expire, "HGET": r.hget, "HMGET": r.hmget, "HSET": r.hset, "HDEL": r.hdel, "HINCRBY": r.hincr,
		"ZADD": r.zadd, "ZREM": r.zrem, "ZCARD": r.zcard, "ZRANGE": r.zrange,
		"ZRANGEBYSCORE": r.zrangeByScore, "ZREMRANGEBYSCORE": r.zremRangeByScore,
	}
	redis := r.lua.NewTable()
	redis.RawSetString("call", r.lua.NewFunction(r.redisCall))
	r.lua.SetGlobal("redis", redis)
	packing := r.lua.NewTable()
	packing.RawSetString("pack", r.lua.NewFunction(pack))
	packing.RawSetString("unpack", r.lua.NewFunction(unpack))
	r.lua.SetGlobal("struct", packing)
	return r
}

// run runs one script.
func (r *simRedis) run(o order) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moved = 0
	f := r.loaded[o.script]
	if f == nil {
		var err error
		if f, err = r.lua.LoadString(r.text(o.script)); err != nil {
			panic(err)
		}
		r.loaded[o.script] = f
	}
	r.lua.SetGlobal("KEYS", list(r.lua, o.keys))
	r.lua.SetGlobal("ARGV", list(r.lua, o.args))
	if err := r.lua.CallByParam(lua.P{Fn: f, NRet: 1, Protect: true}); err != nil {
		return answer{err: fmt.Errorf("a script failed: %w", err)}
	}
	v := r.lua.Get(-1)
	r.lua.Pop(1)
	switch v := v.(type) {
	case lua.LString:
		return answer{text: string(v)}
	case lua.LNumber:
		return answer{text: itoa(int64(v))}
	}
	return answer{err: errors.New("a script returned something else")}
}

// lose forgets all data.
func (r *simRedis) lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.keys)
}

// redisCall is redis.call.
func (r *simRedis) redisCall(l *lua.LState) int {
	name := l.CheckString(1)
	args := make([]string, 0, 8)
	for i := 2; i <= l.GetTop(); i++ {
		switch v := l.Get(i).(type) {
		case lua.LString:
			args = append(args, string(v))
		case lua.LNumber:
			args = append(args, strconv.FormatFloat(float64(v), 'f', -1, 64))
		default:
			l.RaiseError("%s: argument %d is neither a string nor a number", name, i)
		}
	}
	command := r.call[name]
	if command == nil {
		l.RaiseError("the simulated Redis has no command %s", name)
	}
	reply := command(args)
	for _, a := range args {
		r.moved += len(a)
	}
	if text, ok := reply.(lua.LString); ok {
		r.moved += len(text)
	}
	l.Push(reply)
	return 1
}

func list(l *lua.LState, values []string) *lua.LTable {
	t := l.CreateTable(len(values), 0)
	for _, v := range values {
		t.Append(lua.LString(v))
	}
	return t
}

// value returns the value of a key, or nil.
func (r *simRedis) value(key string) *simValue {
	v := r.keys[key]
	if v != nil && !v.expires.IsZero() && !r.now().Before(v.expires) {
		delete(r.keys, key)
		return nil
	}
	return v
}

// make returns the value of a key and creates it if necessary.
func (r *simRedis) make(key string) *simValue {
	v := r.value(key)
	if v == nil {
		v = &simValue{hash: map[string]string{}, scores: map[string]float64{}}
		r.keys[key] = v
	}
	return v
}

// tidy deletes a key whose value is empty, as Redis does.
func (r *simRedis) tidy(key string) {
	if v := r.keys[key]; v != nil && len(v.text) == 0 && len(v.hash) == 0 && len(v.scores) == 0 {
		delete(r.keys, key)
	}
}

// after returns the time that is a number of milliseconds ahead.
func (r *simRedis) after(millis string) time.Time {
	return r.now().Add(time.Duration(number(millis)) * time.Millisecond)
}

func number(s string) float64 {
	if s == "-inf" {
		return math.Inf(-1)
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err) // a script has passed something that Redis would refuse
	}
	return v
}

func count(n int) lua.LValue { return lua.LNumber(n) }

func (r *simRedis) time([]string) lua.LValue {
	now := r.now()
	return list(r.lua, []string{itoa(now.Unix()), itoa(int64(now.Nanosecond() / 1000))})
}

func (r *simRedis) get(a []string) lua.LValue {
	if v := r.value(a[0]); v != nil {
		return lua.LString(v.text)
	}
	return lua.LFalse
}

func (r *simRedis) set(a []string) lua.LValue {
	delete(r.keys, a[0])
	v := r.make(a[0])
	v.text = []byte(a[1])
	if len(a) == 4 && a[2] == "PX" {
		v.expires = r.after(a[3])
	}
	return lua.LTrue
}

func (r *simRedis) getRange(a []string) lua.LValue {
	v := r.value(a[0])
	if v == nil {
		return lua.LString("")
	}
	start, end := int(number(a[1])), int(number(a[2]))
	if start < 0 {
		start = max(0, len(v.text)+start)
	}
	if end < 0 {
		end += len(v.text)
	}
	if end = min(end, len(v.text)-1); start > end {
		return lua.LString("")
	}
	return lua.LString(v.text[start : end+1])
}

func (r *simRedis) setRange(a []string) lua.LValue {
	v, start := r.make(a[0]), int(number(a[1]))
	if short := start + len(a[2]) - len(v.text); short > 0 {
		v.text = append(v.text, make([]byte, short)...)
	}
	copy(v.text[start:], a[2])
	return count(len(v.text))
}

func (r *simRedis) del(a []string) lua.LValue {
	for _, key := range a {
		delete(r.keys, key)
	}
	return count(len(a))
}

func (r *simRedis) expire(a []string) lua.LValue {
	v := r.value(a[0])
	if v == nil {
		return count(0)
	}
	v.expires = r.after(a[1])
	return count(1)
}

func (r *simRedis) hget(a []string) lua.LValue {
	if v := r.value(a[0]); v != nil {
		if field, ok := v.hash[a[1]]; ok {
			return lua.LString(field)
		}
	}
	return lua.LFalse
}

func (r *simRedis) hmget(a []string) lua.LValue {
	t := r.lua.CreateTable(len(a)-1, 0)
	for _, field := range a[1:] {
		t.Append(r.hget([]string{a[0], field}))
	}
	return t
}

func (r *simRedis) hset(a []string) lua.LValue {
	v := r.make(a[0])
	for i := 1; i < len(a); i += 2 {
		v.hash[a[i]] = a[i+1]
	}
	return count(len(a) / 2)
}

func (r *simRedis) hdel(a []string) lua.LValue {
	if v := r.value(a[0]); v != nil {
		delete(v.hash, a[1])
		r.tidy(a[0])
	}
	return count(1)
}

func (r *simRedis) hincr(a []string) lua.LValue {
	v := r.make(a[0])
	n := int64(number(a[2]))
	if old, ok := v.hash[a[1]]; ok {
		before, err := strconv.ParseInt(old, 10, 64)
		if err != nil {
			panic(err)
		}
		n += before
	}
	v.hash[a[1]] = itoa(n)
	return lua.LNumber(n)
}

func (r *simRedis) zadd(a []string) lua.LValue {
	if a[1] == "XX" {
		if v := r.value(a[0]); v != nil {
			if _, ok := v.scores[a[3]]; ok {
				v.scores[a[3]] = number(a[2])
			}
		}
		return count(0)
	}
	v, added := r.make(a[0]), 0
	for i := 1; i < len(a); i += 2 {
		if _, ok := v.scores[a[i+1]]; !ok {
			added++
		}
		v.scores[a[i+1]] = number(a[i])
	}
	return count(added)
}

func (r *simRedis) zrem(a []string) lua.LValue {
	removed := 0
	if v := r.value(a[0]); v != nil {
		if _, ok := v.scores[a[1]]; ok {
			delete(v.scores, a[1])
			removed = 1
		}
		r.tidy(a[0])
	}
	return count(removed)
}

func (r *simRedis) zcard(a []string) lua.LValue {
	if v := r.value(a[0]); v != nil {
		return count(len(v.scores))
	}
	return count(0)
}

// upTo returns the members with a score up to a limit, in no order: no script depends on it, and sorting the
// list of a thousand nodes for each of them would be half of a simulation.
func (r *simRedis) upTo(key string, most float64) (members []string) {
	v := r.value(key)
	if v == nil {
		return nil
	}
	for member, score := range v.scores {
		if score <= most {
			members = append(members, member)
		}
	}
	return members
}

// zrange knows only the range of all.
func (r *simRedis) zrange(a []string) lua.LValue { return list(r.lua, r.upTo(a[0], math.Inf(1))) }

// zrangeByScore knows only ranges from -inf.
func (r *simRedis) zrangeByScore(a []string) lua.LValue {
	return list(r.lua, r.upTo(a[0], number(a[2])))
}

func (r *simRedis) zremRangeByScore(a []string) lua.LValue {
	gone := r.upTo(a[0], number(a[2]))
	for _, member := range gone {
		delete(r.keys[a[0]].scores, member)
	}
	r.tidy(a[0])
	return count(len(gone))
}

// pack is struct.pack of doubles, least byte first; no script uses another format.
func pack(l *lua.LState) int {
	format := doubles(l)
	b := make([]byte, 0, 8*format)
	for i := range format {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(l.CheckNumber(2+i))))
	}
	l.Push(lua.LString(b))
	return 1
}

// unpack is struct.unpack for the same. It also returns the position behind, as the original does.
func unpack(l *lua.LState) int {
	format, text, at := doubles(l), l.CheckString(2), l.OptInt(3, 1)-1
	if at+8*format > len(text) {
		l.RaiseError("data string too short")
	}
	for range format {
		l.Push(lua.LNumber(math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[at : at+8])))))
		at += 8
	}
	l.Push(lua.LNumber(at + 1))
	return format + 1
}

// doubles returns how many a format names.
func doubles(l *lua.LState) int {
	format := l.CheckString(1)
	if n := strings.Count(format, "d"); format == "<"+strings.Repeat("d", n) {
		return n
	}
	l.RaiseError("the simulated Redis cannot pack %s", format)
	return 0
}

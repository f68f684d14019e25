package routing

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/seal"
	"sluice/internal/upstream/catalog"
)

// A conversation that is not at its favourite is known on the other node within seconds; if both think that it begins, the
// favourite wins. A node that starts later learns of it as well.
func TestHomesOverNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, key := &table{models: map[ConversationID]string{}}, seal.NewKey()
		m, routes := threeTimesTwo(t, catalog.AffinityPrefix, nil)
		start := func() *Router {
			r := NewRouter(&RouterOptions{Shared: d, Key: key, Log: slog.New(slog.DiscardHandler)})
			go r.Run(t.Context())
			synctest.Wait()
			return r
		}
		one, two := start(), start()
		settle := func() {
			time.Sleep(movesEvery + writeAfter + time.Second)
			synctest.Wait()
		}
		strayed := map[string]string{} // conversations that began elsewhere than at their favourite
		for i := range 60 {
			name := fmt.Sprint("Conversation ", i)
			target, _ := asks(t, one, routes, m, time.Now(), "", name, 0)
			// The other node has seen nothing: a follow-up there is at the favourite. It is asked on a node of its own.
			if favourite, _ := asks(t, NewRouter(&RouterOptions{Key: key}), routes, m, time.Now(), "", name, 1); favourite != target {
				strayed[name] = target
			}
		}
		if _, writes := d.seen(); len(strayed) == 0 || len(writes) != 0 {
			t.Fatalf("%d conversations strayed, and %d writes before anybody could know; want some, and none", len(strayed), len(writes))
		}
		settle()
		for name, at := range strayed {
			if target, header := asks(t, two, routes, m, time.Now(), "", name, 1); target != at || header != "kept" {
				t.Errorf("%s is %q at %s on the other node, want it kept at %s", name, header, target, at)
			}
		}
		late := start()
		for name, at := range strayed {
			if target, header := asks(t, late, routes, m, time.Now(), "", name, 1); target != at || header != "kept" {
				t.Errorf("%s is %q at %s on a node that started later, want it kept at %s", name, header, target, at)
			}
		}
		for id, text := range d.models { // nothing of a conversation is stored, and no name of a target
			if !strings.HasPrefix(text, homeText) || strings.Contains(text, "1111") {
				t.Errorf("%x is stored as %q", id, text)
			}
		}
		finds, _ := d.seen()
		if finds != 0 {
			t.Errorf("the database was asked %d times by calls, want never", finds)
		}

		// Both nodes think that a session begins: node one places it elsewhere, node two at its favourite.
		for i := 0; ; i++ {
			if i == 60 {
				t.Fatal("no session began at two targets")
			}
			session := fmt.Sprint("session-", i)
			first, _ := asks(t, one, routes, m, time.Now(), session, "a", 0)
			second, _ := asks(t, two, routes, m, time.Now(), session, "b", 0)
			p := routes.Plan(m)
			NewRouter(&RouterOptions{Key: key}).Stay(&p, "acct_1", session, parseMessages(t, turn("a", 1), ""))
			at, _ := p.Next(time.Now(), nil)
			at.Ended(time.Now(), nil)
			favourite := at.Provider + at.LastFour
			if first == second || first != favourite && second != favourite {
				continue
			}
			settle()
			settle()
			a, _ := asks(t, one, routes, m, time.Now(), session, "c", 0)
			b, _ := asks(t, two, routes, m, time.Now(), session, "d", 0)
			if a != b || a != favourite {
				t.Errorf("a session that began at %s and %s is at %s and %s, want it at its favourite, %s", first, second, a, b, favourite)
			}
			break
		}
	})
}

// The table has a fixed size. It forgets those at their favourite first.
func TestHomesAreBounded(t *testing.T) {
	t.Parallel()
	h := newHomes(seal.Key{}, nil)
	if _, warm := h.find(1, epoch); warm || h.table.Load() != nil {
		t.Error("the table is there before it is needed")
	}
	minute := minuteOf(epoch)
	for i := range uint64(homeWays - 1) { // all in one set
		h.put(home{conversation: 5 + i*homeSets, target: uint32(i + 1), minute: minute - uint16(i), away: i%2 == 0})
	}
	h.put(home{conversation: 5 + 100*homeSets, target: 9, minute: minute}) // the last free entry
	for range 3 {                                                          // the oldest favourites go
		h.put(home{conversation: 5 + 200*homeSets, target: 9, minute: minute})
		h.put(home{conversation: 5 + 201*homeSets, target: 9, minute: minute})
	}
	var left []uint32
	for i := range uint64(homeWays - 1) {
		if target, warm := h.find(5+i*homeSets, epoch); warm {
			left = append(left, target)
		}
	}
	if want := []uint32{1, 2, 3, 5}; !slices.Equal(left, want) {
		t.Errorf("the homes %v are left, want %v: those that strayed, and the latest of the others", left, want)
	}
	for after, want := range map[time.Duration]bool{-time.Minute: true, stickFor: true, stickFor + 2*time.Minute: false, 30 * 24 * time.Hour: false} {
		if _, warm := h.find(5, epoch.Add(after)); warm != want {
			t.Errorf("after %v the conversation is warm: %t, want %t", after, warm, want)
		}
	}
}

// In the usual case a conversation takes no memory beside the table: a call allocates as often as one without affinity.
func TestConversationsTakeNoMemory(t *testing.T) {
	r := NewRouter(nil)
	var allocs [2]float64
	for i, affinity := range []catalog.Affinity{catalog.AffinityOff, catalog.AffinityPrefix} {
		m, routes := threeTimesTwo(t, affinity, nil)
		sessions := make([]string, 2000)
		for k := range sessions {
			sessions[k] = fmt.Sprint("session-", k)
		}
		req := parseMessages(t, turn("Hello", 3), "")
		next := 0
		call := func() {
			p := routes.Plan(m)
			r.Stay(&p, "acct_1", sessions[next%len(sessions)], req)
			next++
			a, _ := p.Next(epoch, nil)
			a.Answered(epoch)
			p.Stayed(&a, epoch)
			a.Ended(epoch, io.EOF)
		}
		call() // makes the table
		allocs[i] = testing.AllocsPerRun(1000, call)
	}
	if allocs[1] > allocs[0] {
		t.Errorf("a call of a new conversation allocates %v times, without affinity %v times; want no more", allocs[1], allocs[0])
	}
}

// BenchmarkAffinity tells what a call of an agent costs more because its conversation stays: a system prompt of 20 KB and a
// hundred messages, at six targets.
func BenchmarkAffinity(b *testing.B) {
	messages := `{"role":"system","content":"` + strings.Repeat("You are a careful agent. ", 800) + `"},` + turn(strings.Repeat("Please repair the build. ", 200), 50)
	req := parseMessages(b, messages, "")
	for name, tt := range map[string]struct {
		affinity catalog.Affinity
		session  string
	}{"off": {catalog.AffinityOff, ""}, "prefix": {catalog.AffinityPrefix, ""}, "session": {catalog.AffinityPrefix, "0197-a"}} {
		b.Run(name, func(b *testing.B) {
			r := NewRouter(nil)
			m, routes := threeTimesTwo(b, tt.affinity, nil)
			b.ReportAllocs()
			for b.Loop() {
				p := routes.Plan(m)
				r.Stay(&p, "acct_1", tt.session, req)
				a, _ := p.Next(epoch, nil)
				a.Answered(epoch)
				p.Stayed(&a, epoch)
				a.Ended(epoch, io.EOF)
			}
		})
	}
}

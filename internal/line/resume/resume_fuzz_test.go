package resume

import (
	"testing"

	"sluice/internal/kit/seal"
)

func FuzzLastEvent(f *testing.F) {
	for _, s := range []string{"", "0", "17", "k3jd92ma-17", "-1", "a-", "1234567890", "x y-1", "a-b-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		tag, number, err := lastEvent([]string{value})
		if err == nil && (number < 0 || len(tag) > maxTag) {
			t.Errorf("lastEvent(%q) = %q, %d", value, tag, number)
		}
	})
}

// A message of a node that is mistaken, or of somebody who is none, does no harm.
func FuzzHeard(f *testing.F) {
	for _, s := range []string{
		"ask node0 session 1 a 0 s", "ask * session 1 a 0 s", "ask node0 session 2 a 0 s", "ask node0 session x a 0 s", "ask node0 session 1 a 99 s",
		"got session 1 more AAAA", "got session 1 end", "bye session", "bye", "", "ask",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, message string) {
		s := New(&Options{Bus: node{network: &network{got: map[string]func(string){}}, tag: "node0"}, Key: seal.NewKey()})
		st, _, _ := call(t, s, false)
		write(t, st, "data: x\n\n")
		st.Close(true)
		s.peers.heard(message)
		s.peers.cancel()
		s.peers.working.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(st)
	})
}

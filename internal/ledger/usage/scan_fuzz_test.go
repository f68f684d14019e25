package usage

import (
	"testing"
	"time"
)

// Whatever is in a segment, scan returns frames and gaps that lie within it, in order, and reads every record or refuses it.
func FuzzScan(f *testing.F) {
	var whole []byte
	last := link{}
	for seq := range uint64(3) {
		b := appendRecord(make([]byte, frameHead), &Settlement{ID: "request", At: time.Unix(1_700_000_000, 0), AccountID: "acct_1", ModelUsed: "m"})
		last = seal(b, kindSettlement, last, seq+1)
		whole = append(whole, b...)
	}
	f.Add(whole, false)
	f.Add(whole, true)
	f.Add(whole[:len(whole)-7], false)
	f.Add(append(append([]byte{}, whole...), resumeFrame(last, link{seq: 9, sum: 1, known: true})...), false)
	damaged := append([]byte{}, whole...)
	damaged[len(whole)/2] ^= 0xff
	f.Add(damaged, false)
	f.Add(make([]byte, 5000), false)
	f.Fuzz(func(t *testing.T, data []byte, old bool) {
		end := int64(0)
		found := scan(data, old, link{}, floorless, func(fr *frame, at int64, _ bool) {
			if at < end || at+fr.size > int64(len(data)) {
				t.Fatalf("a frame from %d to %d, after %d, in %d bytes", at, at+fr.size, end, len(data))
			}
			end = at + fr.size
			if fr.kind == kindSettlement {
				_, _ = parseRecord(fr.raw, nil)
			}
		})
		if found.end > int64(len(data)) || found.records < 0 {
			t.Fatalf("scan = %+v of %d bytes", found, len(data))
		}
		for _, g := range found.gaps {
			if g.at < 0 || g.at > g.until || g.until > int64(len(data)) {
				t.Fatalf("a gap from %d to %d in %d bytes", g.at, g.until, len(data))
			}
		}
	})
}

package alert

import (
	"fmt"
	"time"

	"sluice/internal/kit/datadir"
	"sluice/internal/ledger/usage"
	"sluice/internal/upstream/routing"
)

// DownUpstreams returns a sight for each provider of which a target is down. One that fails as a whole would be
// many otherwise, one for each of its models.
func DownUpstreams(targets []routing.TargetHealth) (found []Sight) {
	type target struct {
		Upstream string        `json:"upstream"`
		Key      string        `json:"key,omitempty"` // its last four
		Replica  string        `json:"replica,omitempty"`
		State    routing.State `json:"state"`
	}
	down, all := map[string][]target{}, map[string]int{}
	var order []string
	for _, s := range targets {
		if all[s.Provider]++; !s.Down {
			continue
		}
		if down[s.Provider] == nil {
			order = append(order, s.Provider)
		}
		down[s.Provider] = append(down[s.Provider], target{s.Upstream, s.Key, s.Replica, s.State})
	}
	for _, name := range order {
		found = append(found, Sight{
			Key: "upstream " + name, Began: UpstreamDown, Over: UpstreamUp,
			Title: fmt.Sprintf("Upstream %s is down: %d of %d targets", name, len(down[name]), all[name]), OverTitle: "Upstream " + name + " is up again",
			Data: map[string]any{"provider": name, "down": len(down[name]), "targets": all[name], "list": down[name][:min(len(down[name]), 20)]},
		})
	}
	return found
}

// GrowingJournal returns a sight if settlements of a node have been waiting for the database for longer than most.
func GrowingJournal(node string, books *usage.Books, most time.Duration) []Sight {
	lag, backlog := books.Lag(), books.Backlog()
	if lag <= most {
		return nil
	}
	return []Sight{{
		Key: "journal " + node, Began: JournalGrowing, Over: JournalRecovered,
		Title: fmt.Sprintf("The journal is growing: settlements have been waiting for the database for %s", lag.Round(time.Second)), OverTitle: "The journal is empty again",
		Data: map[string]any{"node": node, "lag_seconds": int64(lag.Seconds()), "records": backlog.Records, "bytes": backlog.Bytes},
	}}
}

// FillingDisk returns a sight if less than some MiB are free on the disk of a node's data folder. 0 MiB are always free.
func FillingDisk(node, folder string, leastMiB int) []Sight {
	free, known := datadir.Free(folder)
	if !known || free >= uint64(leastMiB)<<20 {
		return nil
	}
	return []Sight{{
		Key: "disk " + node, Began: DiskFilling, Over: DiskRecovered,
		Title: fmt.Sprintf("The disk is filling up: %d MiB are left", free>>20), OverTitle: "The disk has space again",
		Data: map[string]any{"node": node, "free_bytes": free},
	}}
}

package alert_test

import (
	"encoding/json"
	"testing"

	"sluice/internal/operate/alert"
	"sluice/internal/upstream/routing"
)

// A provider is one alert, however many of its targets get no calls.
func TestDownUpstreams(t *testing.T) {
	t.Parallel()
	found := alert.DownUpstreams([]routing.TargetHealth{
		{Provider: "a", Upstream: "m1"}, {Provider: "b", Upstream: "m1", State: routing.Open, Down: true}, {Provider: "b", Upstream: "m2", State: routing.HalfOpen, Key: "1234", Down: true}, {Provider: "b", Upstream: "m3", State: routing.HalfOpen},
	})
	if len(found) != 1 || found[0].Key != "upstream b" || found[0].Title != "Upstream b is down: 2 of 3 targets" {
		t.Fatalf("DownUpstreams = %+v, want b alone", found)
	}
	data, err := json.Marshal(found[0].Data)
	if want := `{"down":2,"list":[{"upstream":"m1","state":"open"},{"upstream":"m2","key":"1234","state":"half_open"}],"provider":"b","targets":3}`; err != nil || string(data) != want {
		t.Errorf("its data are %s, %v, want %s", data, err, want)
	}
}

// A disk is an alert while less than the least is free, and never if that is 0.
func TestFillingDisk(t *testing.T) {
	t.Parallel()
	for least, want := range map[int]int{0: 0, 1 << 40: 1} { // no disk has an EiB
		found := alert.FillingDisk("n", t.TempDir(), least)
		if len(found) != want {
			t.Errorf("FillingDisk with at least %d MiB = %+v, want %d sights", least, found, want)
		}
		for _, s := range found {
			if s.Key != "disk n" || s.Began != alert.DiskFilling {
				t.Errorf("FillingDisk = %+v", s)
			}
		}
	}
}

package billing

import (
	"testing"
	"time"
)

func at(t testing.TB, text string) time.Time {
	t.Helper()
	v, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestBoundary(t *testing.T) {
	t.Parallel()
	tests := []struct {
		began string
		n     int
		want  string
	}{
		{"2026-01-15 10:20:30", 0, "2026-01-15 10:20:30"},
		{"2026-01-15 10:20:30", 1, "2026-02-15 10:20:30"},
		{"2026-01-15 10:20:30", 12, "2027-01-15 10:20:30"},
		{"2026-01-31 23:59:59", 1, "2026-02-28 23:59:59"},
		{"2026-01-31 23:59:59", 2, "2026-03-31 23:59:59"}, // the day comes back
		{"2026-01-31 23:59:59", 3, "2026-04-30 23:59:59"},
		{"2028-01-31 00:00:00", 1, "2028-02-29 00:00:00"}, // a leap year
		{"2027-12-30 08:00:00", 2, "2028-02-29 08:00:00"},
		{"2028-02-29 12:00:00", 12, "2029-02-28 12:00:00"},
		{"2028-02-29 12:00:00", 48, "2032-02-29 12:00:00"},
		{"2099-12-31 12:00:00", 2, "2100-02-28 12:00:00"}, // no leap year
		{"2026-12-31 01:00:00", 1, "2027-01-31 01:00:00"},
	}
	for _, tt := range tests {
		if got := boundary(at(t, tt.began), tt.n); !got.Equal(at(t, tt.want)) {
			t.Errorf("boundary(%s, %d) = %s, want %s", tt.began, tt.n, got, tt.want)
		}
	}
}

func TestPeriodAt(t *testing.T) {
	t.Parallel()
	tests := []struct{ began, at, start, end string }{
		{"2026-01-31 12:00:00", "2026-02-28 11:59:59", "2026-01-31 12:00:00", "2026-02-28 12:00:00"},
		{"2026-01-31 12:00:00", "2026-02-28 12:00:00", "2026-02-28 12:00:00", "2026-03-31 12:00:00"},
		{"2026-01-31 12:00:00", "2026-03-01 00:00:00", "2026-02-28 12:00:00", "2026-03-31 12:00:00"},
		{"2026-11-20 12:00:00", "2027-02-01 00:00:00", "2027-01-20 12:00:00", "2027-02-20 12:00:00"},
		{"2026-11-20 12:00:00", "2026-11-20 12:00:00", "2026-11-20 12:00:00", "2026-12-20 12:00:00"},
	}
	for _, tt := range tests {
		start, end := periodAt(at(t, tt.began), at(t, tt.at))
		if !start.Equal(at(t, tt.start)) || !end.Equal(at(t, tt.end)) {
			t.Errorf("periodAt(%s, %s) = %s to %s, want %s to %s", tt.began, tt.at, start, end, tt.start, tt.end)
		}
	}
}

func TestProrated(t *testing.T) {
	t.Parallel()
	start, end := at(t, "2026-04-10 00:00:00"), at(t, "2026-05-10 00:00:00") // 30 days, 2,592,000 seconds
	tests := []struct {
		cents int64
		now   time.Time
		want  int64
	}{
		{1500, start, 1500},
		{1500, start.Add(15 * day), 750},
		{1500, end.Add(-864 * time.Second), 1},     // half a cent is rounded up
		{1500, end.Add(-863 * time.Second), 0},     // a second less is not
		{1500, start.Add(864 * time.Second), 1500}, // 1499.5
		{1500, start.Add(865 * time.Second), 1499},
		{6500, start.Add(10*day + time.Hour), 4324}, // 6500 × 719/720 × 2/3 and so on: 4324.31
		{0, start, 0},
	}
	for _, tt := range tests {
		if got := prorated(tt.cents, tt.now, start, end); got != tt.want {
			t.Errorf("prorated(%d, %s) = %d, want %d", tt.cents, tt.now, got, tt.want)
		}
	}
}

func TestNextRetry(t *testing.T) {
	t.Parallel()
	since := at(t, "2026-04-10 00:00:00")
	tests := []struct {
		after  time.Duration
		failed int
		want   time.Duration
	}{
		{0, 1, 3 * day},
		{3 * day, 2, 5 * day},
		{5 * day, 3, 7 * day},
		{6 * day, 2, 7 * day}, // no server ran on day 5: not twice on one day
		{20 * day, 3, 21 * day},
	}
	for _, tt := range tests {
		if got := nextRetry(since, since.Add(tt.after), tt.failed); !got.Equal(since.Add(tt.want)) {
			t.Errorf("nextRetry(%d, after %s) = day %v, want day %v", tt.failed, tt.after, got.Sub(since)/day, tt.want/day)
		}
	}
}

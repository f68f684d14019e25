package redisledger

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/ledger/admission"
	"sluice/internal/testkit/redistest"
)

// BenchmarkTake is one call, from Take to Free, in memory and on Redis over loopback. cpu-µs/op is the time
// of this process on all cores, redis-µs/op that of the server, with the time to read and write its
// connections. A thousand accounts call in turn: in a long run their windows hold hundreds of records.
func BenchmarkTake(b *testing.B) {
	all := limits(1_000_000, 1000, 1_000_000_000)
	cost := admission.Cost{RequestMilli: 1000, Tokens: 1100}
	used := admission.Cost{RequestMilli: 1000, Tokens: 200}
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprintf("acct_%020d", i)
	}
	call := func(b *testing.B, l admission.Ledger, i int) {
		id := ids[i*7919%len(ids)]
		p, _, o := l.Take(id, all, cost)
		if o != nil {
			b.Fatal(o)
		}
		l.Free(id, p, used)
	}
	alone := func(b *testing.B, l admission.Ledger) {
		b.ReportAllocs()
		before, i := cpu(b), 0
		for b.Loop() {
			call(b, l, i)
			i++
		}
		b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	}
	together := func(b *testing.B, l admission.Ledger) {
		b.ReportAllocs()
		b.SetParallelism(32)
		before := cpu(b)
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				call(b, l, i)
			}
		})
		b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	}
	b.Run("memory/alone", func(b *testing.B) { alone(b, admission.NewMemory(nil)) })
	b.Run("memory/64-callers", func(b *testing.B) { together(b, admission.NewMemory(nil)) })
	onRedis := func(run func(*testing.B, admission.Ledger)) func(*testing.B) {
		return func(b *testing.B) {
			l := open(b, redistest.URL(b), Options{Deadline: patient})
			stop := keepRunning(b, l)
			defer stop()
			before := redisCPU(b, l)
			run(b, l)
			b.ReportMetric(float64((redisCPU(b, l)-before).Microseconds())/float64(b.N), "redis-µs/op")
		}
	}
	b.Run("redis/alone", onRedis(alone))
	b.Run("redis/64-callers", onRedis(together))
}

// redisCPU returns the processor time that the server has used.
func redisCPU(b *testing.B, l *Ledger) time.Duration {
	c := raw(l)
	info, err := c.Do(b.Context(), c.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	var sum float64
	for line := range strings.SplitSeq(info, "\r\n") {
		if name, value, _ := strings.Cut(line, ":"); name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += seconds
		}
	}
	return time.Duration(sum * float64(time.Second))
}

// cpu returns the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

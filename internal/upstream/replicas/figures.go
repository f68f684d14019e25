package replicas

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"sluice/internal/upstream/routing"
)

const (
	// mostText bounds what is read of a server's metrics, in bytes. Those of a busy server have about a tenth.
	mostText = 1 << 20
	// mostLine bounds one line of them.
	mostLine = 32 << 10
	// mostCalls is the largest number of calls that is believed.
	mostCalls = 1_000_000
)

var (
	// errNone means that a server has metrics, but none of those that are known here.
	errNone = errors.New("the server reports none of the metrics that are known")
	errLong = errors.New("the metrics of the server are too long")
)

// gauge is what a metric says.
type gauge uint8

const (
	running gauge = iota
	waiting
	use     // of the cache, 0 to 1
	hits    // tokens of prompts that were in the cache, since the start
	queries // tokens of prompts, since the start
	rate    // share of hits, 0 to 1
	gauges
)

// metrics are the names of what servers report, as they are written without labels, with _ for a colon: some versions of
// SGLang write it so. An older name comes after the newer one and means the same.
var metrics = map[string]gauge{
	"vllm_num_requests_running":       running,
	"vllm_num_requests_waiting":       waiting,
	"vllm_kv_cache_usage_perc":        use,
	"vllm_gpu_cache_usage_perc":       use,
	"vllm_prefix_cache_hits_total":    hits,
	"vllm_prefix_cache_queries_total": queries,

	"sglang_num_running_reqs": running,
	"sglang_num_queue_reqs":   waiting,
	"sglang_token_usage":      use,
	"sglang_cache_hit_rate":   rate,

	"llamacpp_requests_processing":  running,
	"llamacpp_requests_deferred":    waiting,
	"llamacpp_kv_cache_usage_ratio": use,
}

// tally is what the lines of one text add up to.
type tally struct {
	values [gauges]float64
	known  [gauges]bool
}

// read reads the metrics of one server. Its engines and models are added up; of shares the largest counts.
func read(text io.Reader) (*routing.Figures, error) {
	limited := &io.LimitedReader{R: text, N: mostText}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, mostLine)
	var sum tally
	for lines.Scan() {
		sum.add(lines.Bytes())
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong), err == nil && limited.N == 0:
		return nil, errLong
	case err != nil:
		return nil, err
	case !sum.known[running]:
		return nil, errNone
	}
	return sum.figures(), nil
}

// figures returns the figures of a tally that knows how many calls run.
func (t *tally) figures() *routing.Figures {
	f := &routing.Figures{Running: int64(t.values[running]), Waiting: int64(t.values[waiting])}
	if t.known[use] {
		share := min(t.values[use], 1)
		f.CacheUse = &share
	}
	switch {
	case t.known[rate]:
		share := min(t.values[rate], 1)
		f.HitRate = &share
	case t.known[hits] && t.values[queries] > 0:
		share := min(t.values[hits]/t.values[queries], 1)
		f.HitRate = &share
	}
	return f
}

// add takes account of a line. One that is no metric, or none that is known, changes nothing.
func (t *tally) add(line []byte) {
	end := bytes.IndexAny(line, "{ \t")
	if end <= 0 || line[0] == '#' {
		return
	}
	what, known := metrics[strings.Replace(string(line[:end]), ":", "_", 1)]
	if !known {
		return
	}
	labels, rest, ok := cutLabels(line[end:])
	fields := bytes.Fields(rest) // the value, and perhaps a time
	// The ranks of one SGLang work on the same calls; the first one speaks for all.
	if !ok || len(fields) == 0 || bytes.Contains(labels, []byte(`tp_rank="`)) && !bytes.Contains(labels, []byte(`tp_rank="0"`)) {
		return
	}
	v, err := strconv.ParseFloat(string(fields[0]), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return
	}
	t.known[what] = true
	switch what {
	case use, rate:
		t.values[what] = max(t.values[what], v)
	case running, waiting:
		t.values[what] = min(t.values[what]+v, mostCalls)
	default:
		t.values[what] += v
	}
}

// cutLabels splits what follows the name of a metric into its labels, which it may not have, and the rest. A quoted value
// of a label may have any character in it.
func cutLabels(text []byte) (labels, rest []byte, ok bool) {
	if text[0] != '{' {
		return nil, text, true
	}
	quoted := false
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return text[1:i], text[i+1:], true
		}
	}
	return nil, nil, false
}

package replicas

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/testkit/vendortest"
	"sluice/internal/upstream/routing"
)

// shown returns figures in short.
func shown(f *routing.Figures) string {
	if f == nil {
		return "none"
	}
	share := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.2f", *v)
	}
	return fmt.Sprintf("%d %d %s %s", f.Running, f.Waiting, share(f.CacheUse), share(f.HitRate))
}

func TestRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text, want string
		err        error
	}{
		"vllm": {"# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0\n" +
			"vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 12.0\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.43\n" +
			"vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"m\"} 1e+06\nvllm:prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 900000.0\n", "3 12 0.43 0.90", nil},
		"vllm, older":           {"vllm:num_requests_running{model_name=\"m\"} 3.0\nvllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\n", "3 0 0.50 -", nil},
		"vllm, both names":      {"vllm:num_requests_running 3.0\nvllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.5\n", "3 0 0.50 -", nil},
		"vllm, several engines": {"vllm:num_requests_running{engine=\"0\"} 3.0\nvllm:num_requests_running{engine=\"1\"} 4.0\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.9\n", "7 0 0.90 -", nil},
		"vllm, by reason":       {"vllm:num_requests_running 1\nvllm:num_requests_waiting 4\nvllm:num_requests_waiting_by_reason{reason=\"capacity\"} 4\n", "1 4 - -", nil},
		"sglang": {"sglang:num_running_reqs{model_name=\"m\",tp_rank=\"0\"} 5.0\nsglang:num_running_reqs{model_name=\"m\",tp_rank=\"1\"} 5.0\nsglang:num_queue_reqs{model_name=\"m\"} 2.0\n" +
			"sglang:token_usage{model_name=\"m\"} 0.28\nsglang:cache_hit_rate{model_name=\"m\"} 0.0075\n", "5 2 0.28 0.01", nil},
		"sglang, data parallel": {"sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"0\"} 5.0\nsglang:num_running_reqs{dp_rank=\"1\",tp_rank=\"0\"} 6.0\n", "11 0 - -", nil},
		"sglang, underscores":   {"sglang_num_running_reqs 5.0\n", "5 0 - -", nil},
		"llama.cpp":             {"llamacpp:requests_processing 1\nllamacpp:requests_deferred 7\n", "1 7 - -", nil},
		"llama.cpp, older":      {"llamacpp:requests_processing 1\nllamacpp:kv_cache_usage_ratio 0.25\n", "1 0 0.25 -", nil},
		"labels with anything":  {"vllm:num_requests_running{model_name=\"a}b\\\"} 9 {\"} 2 1700000000000\n", "2 0 - -", nil},
		"no metrics of ours":    {"go_goroutines 5\nprocess_open_fds 3\n", "none", errNone},
		"a page":                {"<!doctype html><title>vllm:num_requests_running 5</title>", "none", errNone},
		"nothing":               {"", "none", errNone},
		"not numbers":           {"vllm:num_requests_running NaN\nvllm:num_requests_running +Inf\nvllm:num_requests_running -4\nvllm:num_requests_running x\nvllm:num_requests_running\n", "none", errNone},
		"open labels":           {"vllm:num_requests_running{model_name=\"m 5\n", "none", errNone},
		"beyond belief":         {"vllm:num_requests_running 1e300\nvllm:num_requests_waiting 1e300\nvllm:kv_cache_usage_perc 1e300\nvllm:prefix_cache_queries_total 1\nvllm:prefix_cache_hits_total 1e300\n", "1000000 1000000 1.00 1.00", nil},
		"a long line":           {"vllm:num_requests_running 1\n# " + strings.Repeat("x", mostLine) + "\n", "none", errLong},
		"a long text":           {"vllm:num_requests_running 1\n" + strings.Repeat("x 1\n", mostText/4), "none", errLong},
	} {
		got, err := read(strings.NewReader(tt.text))
		if shown(got) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: read = %s, %v, want %s, %v", name, shown(got), err, tt.want, tt.err)
		}
	}
}

// What the fakes of the servers report is read.
func TestReadEngines(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"vllm": "0 0 0.00 -", "sglang": "0 0 0.00 0.00", "llamacpp": "0 0 - -"} {
		got, err := read(strings.NewReader((&vendortest.Engine{Kind: kind}).Metrics()))
		if err != nil || shown(got) != want {
			t.Errorf("%s: read = %s, %v, want %s", kind, shown(got), err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("vllm:num_requests_running{a=\"b\"} 1\n")
	f.Add("vllm:num_requests_running{a=\"\\")
	f.Add("{")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := read(strings.NewReader(text))
		if (err == nil) != (got != nil) {
			t.Fatalf("read = %v, %v", got, err)
		}
		if got != nil && (got.Running < 0 || got.Waiting < 0 || got.Running > mostCalls || got.Waiting > mostCalls || got.CacheUse != nil && !(*got.CacheUse >= 0 && *got.CacheUse <= 1) || got.HitRate != nil && !(*got.HitRate >= 0 && *got.HitRate <= 1)) {
			t.Fatalf("read = %s", shown(got))
		}
	})
}

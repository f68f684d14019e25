package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"sluice/internal/kit/pace"
)

const (
	// firstPause is the pause between the first calls.
	firstPause = 500 * time.Millisecond
	// callEvery is the usual pause between two calls of the company's programs.
	callEvery = 7 * time.Second
	// workPatience is how long a call may take.
	workPatience = time.Minute
	// troubleOnce is how many calls there are for each one whose upstream fails.
	troubleOnce = 24
)

// clips are the videos that a team orders when the demonstration begins.
var clips = []string{"a lighthouse at dusk", "hot-air balloons over a valley at sunrise", "snow falls on a mountain village", "a boat on a lake in the morning fog"}

// work lets the company's programs make calls until ctx ends: one each at first, so that every provider has answered, and
// then a few a minute.
func (d *Demo) work(ctx context.Context) {
	for _, prompt := range clips {
		d.post(ctx, "/v1/video/generations/jobs", d.Key(), map[string]any{"prompt": prompt, "n_seconds": 2, "width": 854, "height": 480})
	}
	list := workloads()
	list = list[:len(list)-1] // the keys of the last one are off
	for _, w := range list {
		for _, m := range w.models {
			d.call(ctx, &w, m.model, false)
			if pace.Sleep(ctx, firstPause) != nil {
				return
			}
		}
	}
	rng := rand.New(rand.NewPCG(d.note.Seed, uint64(time.Now().UnixNano())))
	for pace.Sleep(ctx, time.Duration(rng.ExpFloat64()*float64(callEvery))) == nil {
		w := &list[rng.IntN(len(list))]
		d.call(ctx, w, w.models[rng.IntN(len(w.models))].model, rng.IntN(troubleOnce) == 0)
	}
}

// call makes a call of a workload. With trouble its upstream fails.
func (d *Demo) call(ctx context.Context, w *workload, model string, trouble bool) {
	text := w.prompts[rand.IntN(len(w.prompts))]
	if trouble {
		text += " [[sandbox:error=503]]"
	}
	key := d.note.Keys[w.person+"/"+w.key]
	if model == embed {
		d.post(ctx, "/v1/embeddings", key, map[string]any{"model": model, "input": text})
		return
	}
	body := map[string]any{"model": model, "messages": []map[string]string{{"role": "user", "content": text}}}
	if w.session > 0 {
		body["prompt_cache_key"] = time.Now().UTC().Format("task-20060102-15") // an agent is at a task for an hour
	}
	d.post(ctx, "/v1/chat/completions", key, body)
}

// post sends a request. What becomes of it is on the pages.
func (d *Demo) post(ctx context.Context, path, key string, body map[string]any) {
	ctx, cancel := context.WithTimeout(ctx, workPatience)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Origin()+path, bytes.NewReader(text))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

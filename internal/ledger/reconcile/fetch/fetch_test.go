package fetch_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/reconcile"
	"sluice/internal/ledger/reconcile/fetch"
)

var from, to = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC)

// vendor answers as a vendor does. It returns the exports that were read, and what was asked.
func vendor(t *testing.T, opts fetch.Options, answer func(w http.ResponseWriter, r *http.Request, body string)) (exports []reconcile.Export, asked []string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.String())
		answer(w, r, string(body))
	}))
	defer server.Close()
	opts.Base = server.URL
	s, err := fetch.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	reader := reconcile.NewReader(opts.Vendor, nil)
	if err = s.Read(t.Context(), reader, from, to); err == nil {
		exports, err = reader.Exports()
	}
	return exports, asked, err
}

// All pages of all reports are asked for, with the key, and read.
func TestPages(t *testing.T) {
	t.Parallel()
	var told []string
	opts := fetch.Options{Vendor: reconcile.OpenAI, Key: "sk-admin", Progress: func(text string) { told = append(told, text) }}
	exports, asked, err := vendor(t, opts, func(w http.ResponseWriter, r *http.Request, _ string) {
		q := r.URL.Query()
		if r.Header.Get("Authorization") != "Bearer sk-admin" || q.Get("start_time") != "1790812800" || q.Get("end_time") != "1793491200" {
			t.Errorf("asked %s with %q", r.URL, r.Header)
		}
		day := 1790812800
		page := `"has_more":true,"next_page":"p2"`
		if q.Get("page") == "p2" {
			day, page = day+86400, `"has_more":false,"next_page":null`
		}
		result := `{"object":"organization.costs.result","amount":{"value":0.5,"currency":"usd"},"line_item":"m, input"}`
		if strings.Contains(r.URL.Path, "usage") {
			result = fmt.Sprintf(`{"object":"organization.usage.completions.result","input_tokens":10,"model":%q,"service_tier":"default","batch":false,"api_key_id":"k"}`, r.URL.Path)
		}
		fmt.Fprintf(w, `{"data":[{"start_time":%d,"results":[%s]}],%s}`, day, result, page)
	})
	if err != nil || len(asked) != 6 || len(told) != 6 {
		t.Fatalf("Read: %v; asked %q, told %q", err, asked, told)
	}
	if lines := len(exports[0].Lines) + len(exports[1].Lines); lines != 6 {
		t.Errorf("%d lines were read, want 6: %+v", lines, exports)
	}
}

// Requests to the Cost Explorer are signed, and continue where the last page ended.
func TestCostExplorer(t *testing.T) {
	t.Parallel()
	opts := fetch.Options{Vendor: reconcile.AWS, AWS: fetch.Keys{ID: "AKIDEXAMPLE", Secret: "secret", Token: "session"}}
	exports, asked, err := vendor(t, opts, func(w http.ResponseWriter, r *http.Request, body string) {
		var in struct {
			TimePeriod    struct{ Start, End string }
			NextPageToken string
		}
		if err := json.Unmarshal([]byte(body), &in); err != nil || in.TimePeriod.Start != "2026-10-01" || in.TimePeriod.End != "2026-11-01" {
			t.Errorf("asked %s", body)
		}
		if auth := r.Header.Get("Authorization"); !strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") || !strings.Contains(auth, "/us-east-1/ce/") || r.Header.Get("X-Amz-Target") != "AWSInsightsIndexService.GetCostAndUsage" || r.Header.Get("X-Amz-Security-Token") != "session" {
			t.Errorf("the request is signed with %q", r.Header)
		}
		next := `"NextPageToken":"n",`
		if in.NextPageToken == "n" {
			next = ""
		}
		fmt.Fprintf(w, `{%s"ResultsByTime":[{"TimePeriod":{"Start":"2026-10-0%d","End":"2026-10-02"},"Groups":[{"Keys":["USE1-Claude5Opus-input-tokens","Amazon Bedrock"],"Metrics":{"UnblendedCost":{"Amount":"1.5","Unit":"USD"},"UsageQuantity":{"Amount":"2","Unit":"1K tokens"}}},{"Keys":["BoxUsage","Amazon EC2"],"Metrics":{"UnblendedCost":{"Amount":"1","Unit":"USD"}}}]}]}`, next, 1+len(in.NextPageToken))
	})
	if err != nil || len(asked) != 2 || len(exports) != 1 || len(exports[0].Lines) != 2 || exports[0].Lines[0].Count != 2000 || len(exports[0].Others) != 0 {
		t.Errorf("Read: %v; asked %q, read %+v", err, asked, exports)
	}
}

// A vendor that refuses is told with what to do, and without what it says: that may have parts of keys.
func TestRefused(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{401: "the key must be one that may read the organisation's usage", 429: "try again later in 30 seconds", 500: "answered 500"} {
		_, _, err := vendor(t, fetch.Options{Vendor: reconcile.Anthropic, Key: "sk-ant-admin-secret"}, func(w http.ResponseWriter, r *http.Request, _ string) {
			if r.Header.Get("X-Api-Key") != "sk-ant-admin-secret" || r.Header.Get("Anthropic-Version") == "" {
				t.Errorf("asked with %q", r.Header)
			}
			w.Header().Set("Retry-After", "30")
			http.Error(w, "the key sk-ant-admin-secret is wrong", status)
		})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Read of a vendor that answers %d: %v, want %q", status, err, want)
		}
	}
}

// A vendor whose pages never end is left after a bound.
func TestEndless(t *testing.T) {
	t.Parallel()
	n := 0
	_, _, err := vendor(t, fetch.Options{Vendor: reconcile.Anthropic, Key: "k"}, func(w http.ResponseWriter, _ *http.Request, _ string) {
		n++
		fmt.Fprintf(w, `{"data":[],"has_more":true,"next_page":"p%d"}`, n)
	})
	if err == nil || !strings.Contains(err.Error(), "more than 500 pages") {
		t.Errorf("Read: %v after %d pages", err, n)
	}
}

// The vendor's own address is reached, unless the operator names another one; that of a machine inside the network is not guessed.
func TestAddress(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"api.openai.com", "ftp://x", "://"} {
		if _, err := fetch.New(fetch.Options{Vendor: reconcile.OpenAI, Base: base}); err == nil {
			t.Errorf("New took the address %q", base)
		}
	}
}

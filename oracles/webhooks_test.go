package oracles

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/alert"
)

// received is what the receiver tells about the messages.
type received struct {
	Messages map[string]struct {
		Name, Type      string
		Times, Accepted int
	}
	Bad []string
}

// startReceiver runs the receiver until the test ends and returns its address.
func startReceiver(t *testing.T, program string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join("node", "node_modules", "standardwebhooks", "package.json")); err != nil {
		t.Skip("needs the package standardwebhooks: run npm install --no-save in oracles/node")
	}
	if _, err := os.ReadFile(filepath.Join("node", "receiver.mjs")); err != nil { // so that the go command knows when a cached result is out of date
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "receiver.mjs")
	cmd.Dir, cmd.Stderr = "node", os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the receiver does not start: %v", err)
	}
	return strings.TrimSpace(line)
}

// ask makes a request and returns the body of the reply.
func ask(t *testing.T, client *http.Client, method, address, kind, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s = %v", method, address, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 400 {
		t.Fatalf("%s %s = %d %s, %v", method, address, resp.StatusCode, text, err)
	}
	return string(text)
}

const form = "application/x-www-form-urlencoded"

// A receiver that fails in every way gets every alert at least once, under one id, with a signature that the reference
// library accepts: the customer's and the operator's.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	program, err := node()
	if err != nil {
		t.Skipf("needs Node: %v", err)
	}
	at := startReceiver(t, program)
	secret := alert.NewSecret().Reveal()
	g := startGateway(t, fmt.Sprintf("alerts: {allow_hosts: [127.0.0.1], webhooks: [{name: pager, url: \"%s/hook/operator\", secret: %s}]}\n", at, secret))
	ask(t, http.DefaultClient, http.MethodPut, at+"/secrets/operator", "text/plain", secret)

	// The owner of an account makes a webhook on the pages.
	origin := strings.TrimSuffix(g.url, "/v1")
	id, key := g.account(t, "ana", "scale")
	ana := g.person(t, "ana@example.com")
	page := ask(t, ana, http.MethodPost, origin+"/dashboard/webhooks", form, url.Values{"url": {at + "/hook/customer"}, "types": {"video.succeeded", "score.reached"}}.Encode())
	shown := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]+`).FindString(page)
	ask(t, http.DefaultClient, http.MethodPut, at+"/secrets/customer", "text/plain", shown)

	// What happens: a video, and tests.
	ask(t, &http.Client{Transport: bearer(key)}, http.MethodPost, g.url+"/video/generations/jobs", "application/json", `{"prompt":"waves","width":480,"height":480,"n_seconds":1}`)
	path := regexp.MustCompile(`/dashboard/webhooks/whk_\w+/test`).FindString(page)
	for range 15 {
		ask(t, ana, http.MethodPost, origin+path, form, "")
		if err := g.admin.Call(t.Context(), "alert.test", admin.Empty{}, &admin.List[alert.Delivery]{}); err != nil {
			t.Fatal(err)
		}
	}

	var got received
	var sent []alert.Delivery
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); ; <-tick.C {
		sent = nil
		for _, ref := range []string{"", id} {
			var list admin.List[alert.Delivery]
			if err := g.admin.Call(t.Context(), "alert.deliveries", admin.AlertQuery{Ref: ref}, &list); err != nil {
				t.Fatal(err)
			}
			sent = append(sent, list.Data...)
		}
		if len(sent) == 31 && !slices.ContainsFunc(sent, func(d alert.Delivery) bool { return d.State != alert.Delivered }) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after a minute the deliveries are %+v", sent)
		}
	}
	// Asked last: what is delivered has arrived by then.
	if err := json.Unmarshal([]byte(ask(t, http.DefaultClient, http.MethodGet, at+"/report", "", "")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Bad) > 0 {
		t.Errorf("the receiver complains: %q", got.Bad)
	}
	if len(got.Messages) != len(sent) {
		t.Errorf("%d messages arrived, want %d", len(got.Messages), len(sent))
	}
	again := 0
	for _, d := range sent {
		m, ok := got.Messages[d.ID]
		if !ok || m.Accepted < 1 || m.Type != string(d.Type) || (m.Name == "operator") != (d.AccountID == "") {
			t.Errorf("%+v arrived as %+v, want it accepted", d, m)
		}
		if m.Times > 1 {
			again++
		}
	}
	if again < len(sent)/2 {
		t.Errorf("%d of %d messages were sent again, want most of them: the receiver fails", again, len(sent))
	}
}

// bearer adds a key to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The address of a form answers to a browser that opens it: with its page. Whoever sends a form about something that is gone
// is told so.
func TestFormsAnswerToReaders(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	for _, path := range privateForms {
		r := ana.get(path)
		if r.status != 200 && r.status != 303 && !strings.HasPrefix(path, "/dashboard/plan/") { // a form about a payment is one
			t.Errorf("GET %s = %d, want its page", path, r.status)
		}
		if r.status == 303 && !strings.HasPrefix(path, r.header.Get("Location")) {
			t.Errorf("GET %s leads to %s, want its page", path, r.header.Get("Location"))
		}
	}
	ana.leads(ana.post("/dashboard/keys/key_x/delete"), "deleting a key that is gone", "does not exist any more")
	ana.leads(ana.post("/dashboard/account/sessions/ses_x/close"), "closing a session that is gone", "was signed out")
	ana.wants(ana.get("/signout"), "GET /signout", 303, "/dashboard")
}

// Whoever was signed out in the middle of something comes back to it, and to nothing else.
func TestSignedOutInTheMiddle(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	n.exec("DELETE FROM sessions")
	r := ana.wants(ana.get("/dashboard/keys?new"), "a page", 303, "/signin?next=%2Fdashboard%2Fkeys%3Fnew")
	ana.wants(ana.get(r.header.Get("Location")), "the sign-in", 200, "Your session has ended")
	ana.wants(ana.post("/signin", "email", ana.email, "password", pagePassword, "next", "/dashboard/keys?new"), "signing in", 303, "/dashboard/keys?new")
	n.exec("DELETE FROM sessions")
	r = ana.wants(ana.post("/dashboard/keys/key_x/delete"), "a form", 303, "/signin?next=%2Fdashboard%2Fkeys")
	if to := r.header.Get("Location"); to != "/signin?next=%2Fdashboard%2Fkeys" {
		t.Errorf("a form leads to %s, want its page", to)
	}
	for from, want := range map[string]string{
		"http://" + n.Addr() + "/dashboard/usage?model=x": "/signin?next=%2Fdashboard%2Fusage%3Fmodel%3Dx",
		"https://evil.example//x":                         "/signin", "//evil.example": "/signin", "": "/signin",
	} {
		req, err := http.NewRequest("GET", "http://"+n.Addr()+"/dashboard/minute", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("HX-Request", "true")
		req.Header.Set("HX-Current-URL", from)
		resp, err := n.person().client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("HX-Redirect"); resp.StatusCode != 401 || got != want {
			t.Errorf("a part of %q = %d to %q, want 401 to %q", from, resp.StatusCode, got, want)
		}
	}
	for _, next := range []string{"https://evil.example", "//evil.example", "/dashboard//evil.example", "/dashboardx", "/dashboard\\evil", "javascript:alert(1)", "/signout"} {
		ana.wants(ana.post("/signin", "email", ana.email, "password", pagePassword, "next", next), "signing in to "+next, 303, "/dashboard")
		if to := ana.post("/signin", "email", ana.email, "password", pagePassword, "next", next).header.Get("Location"); to != "/dashboard" {
			t.Errorf("next=%s leads to %s, want /dashboard", url.QueryEscape(next), to)
		}
	}
}

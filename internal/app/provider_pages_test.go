package app_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// startIssuer runs an identity provider that vouches for whoever the code names.
func startIssuer(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := func(v any) string {
		b, _ := json.Marshal(v) // plain maps always encode
		return string(b)
	}
	encode := base64.RawURLEncoding.EncodeToString
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	answer := func(pattern string, make func(r *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text(make(r)))
		})
	}
	answer("GET /.well-known/openid-configuration", func(*http.Request) any {
		return map[string]any{"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token", "jwks_uri": s.URL + "/keys"}
	})
	answer("GET /keys", func(*http.Request) any {
		return map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "kid": "k", "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes())}}}
	})
	answer("POST /token", func(r *http.Request) any {
		email, nonce, _ := strings.Cut(r.FormValue("code"), " ")
		head := encode([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + encode([]byte(text(map[string]any{
			"iss": s.URL, "aud": "client", "sub": "1", "nonce": nonce, "email": email, "email_verified": true, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
		})))
		sum := sha256.Sum256([]byte(head))
		sig, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
		if err != nil {
			t.Error(err)
		}
		return map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": head + "." + encode(sig)}
	})
	return s.URL
}

// leave goes to the provider and returns the way back for somebody it knows.
func (p *person) leave(issuer, email string) (back string) {
	t := p.n.t
	t.Helper()
	p.wants(p.get("/signin"), "GET /signin", 200, "Continue with Example")
	to, err := url.Parse(p.wants(p.get("/signin/provider"), "GET /signin/provider", 303, issuer+"/authorize").header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	q := to.Query()
	if got, want := q.Get("redirect_uri"), p.n.Origin()+"/signin/provider/back"; got != want {
		t.Errorf("redirect_uri = %s, want %s", got, want)
	}
	return "/signin/provider/back?" + url.Values{"state": {q.Get("state")}, "code": {email + " " + q.Get("nonce")}}.Encode()
}

func TestPagesWithAnIdentityProvider(t *testing.T) {
	t.Parallel()
	issuer := startIssuer(t)
	n := newSite(t, fmt.Sprintf("oidc: {issuer: %q, name: Example, client_id: client, client_secret: secret}\n", issuer)).start(t)
	leave := func(p *person, email string) string { return p.leave(issuer, email) }

	p := n.person()
	back := leave(p, "eva@example.com")
	p.wants(n.person().get(back), "the way back in another browser", 400, "Start again")
	p.leads(p.get(back), "the way back", "Welcome")
	p.wants(p.get("/dashboard/account"), "GET /dashboard/account", 200, "eva@example.com")
	p.wants(p.get(back), "the way back twice", 400, "Start again")

	p = n.person()
	p.wants(p.get(leave(p, "eva@example.com")), "the second time", 303, "/dashboard")
	p = n.person()
	p.wants(p.get(strings.Replace(leave(p, "eva@example.com"), "&state", "x&state", 1)), "another code", 401, "did not confirm")
	p = n.person()
	p.wants(p.get(strings.Replace(leave(p, "eva@example.com"), "state=", "state=x", 1)), "another state", 400, "another sign-in")
	p.wants(p.get("/dashboard"), "the dashboard after refusals", 303, "/signin")
}

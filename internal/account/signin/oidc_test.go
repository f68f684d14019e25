package signin_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
)

// issuer is an identity provider whose claims a test decides.
type issuer struct {
	*httptest.Server
	key    *rsa.PrivateKey
	claims map[string]any
	asked  url.Values // what came to the token endpoint
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key, claims: map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		n, e := base64.RawURLEncoding.EncodeToString(key.N.Bytes()), base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes())
		reply(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k", "n": n, "e": e}}})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		i.asked = r.Form
		reply(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": i.sign()})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (i *issuer) sign() string {
	part := func(v any) string {
		b, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	head := part(map[string]any{"alg": "RS256", "kid": "k"}) + "." + part(i.claims)
	sum := sha256.Sum256([]byte(head))
	sig, err := rsa.SignPKCS1v15(nil, i.key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return head + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func TestProvider(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p := signin.NewProvider("Example", i.URL, "client", "secret")
	const back = "https://x.example/signin/provider/back"
	tests := []struct {
		name   string
		change func(claims map[string]any)
		state  string // another than the journey's
		want   fault.Kind
		ok     bool
	}{
		{name: "vouched for", ok: true},
		{name: "another state", state: "forged", want: fault.Invalid},
		{name: "no state", state: "-", want: fault.Invalid},
		{name: "another nonce", change: func(c map[string]any) { c["nonce"] = "forged" }, want: fault.Unauthenticated},
		{name: "for another client", change: func(c map[string]any) { c["aud"] = "other" }, want: fault.Unauthenticated},
		{name: "expired", change: func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() }, want: fault.Unauthenticated},
		{name: "of another issuer", change: func(c map[string]any) { c["iss"] = "https://other.example" }, want: fault.Unauthenticated},
		{name: "address not verified", change: func(c map[string]any) { c["email_verified"] = false }, want: fault.Unauthenticated},
		{name: "address neither verified nor not", change: func(c map[string]any) { delete(c, "email_verified") }, want: fault.Unauthenticated},
		{name: "no address", change: func(c map[string]any) { delete(c, "email") }, want: fault.Unauthenticated},
	}
	for _, tt := range tests {
		to, journey, err := p.Begin(t.Context(), back)
		if err != nil {
			t.Fatalf("Begin = %v", err)
		}
		u, _ := url.Parse(to)
		q := u.Query()
		if !strings.HasPrefix(to, i.URL+"/authorize?") || q.Get("redirect_uri") != back || q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" {
			t.Fatalf("Begin leads to %s", to)
		}
		i.claims = map[string]any{
			"iss": i.URL, "aud": "client", "sub": "1", "nonce": q.Get("nonce"), "email": "ana@example.com", "email_verified": true,
			"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
		}
		if tt.change != nil {
			tt.change(i.claims)
		}
		state := q.Get("state")
		if tt.state != "" {
			state = strings.Trim(tt.state, "-")
		}
		kept, ok := signin.ParseJourney(journey.String())
		if !ok {
			t.Fatalf("ParseJourney(%s) failed", journey)
		}
		email, err := p.End(t.Context(), back, kept, state, "code")
		if tt.ok && (err != nil || email != "ana@example.com") {
			t.Errorf("%s: End = %q, %v", tt.name, email, err)
		}
		if !tt.ok && !fault.Is(err, tt.want) {
			t.Errorf("%s: End = %q, %v, want %s", tt.name, email, err, tt.want)
		}
		if tt.ok && i.asked.Get("code_verifier") == "" {
			t.Error("the code was exchanged without its verifier")
		}
	}
	if _, ok := signin.ParseJourney(""); ok {
		t.Error("ParseJourney of nothing is good")
	}
	gone := signin.NewProvider("Gone", "http://127.0.0.1:1", "c", "s")
	if _, _, err := gone.Begin(t.Context(), back); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Begin at a provider that is away = %v, want unavailable", err)
	}
}

func TestSignInVerified(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), t.Context()
	first, key, err := b.SignInVerified(ctx, "Ana@Example.com", here)
	if err != nil || first.Session == "" || key == "" {
		t.Fatalf("SignInVerified of a stranger = %v, want a new account", err)
	}
	again, key, err := b.SignInVerified(ctx, "ana@example.com", here)
	if err != nil || key != "" {
		t.Errorf("SignInVerified again = key %t, %v, want the same account", key != "", err)
	}
	one, _ := b.Session(ctx, first.Session)
	two, _ := b.Session(ctx, again.Session)
	if one.AccountID != two.AccountID {
		t.Errorf("SignInVerified led to accounts %s and %s", one.AccountID, two.AccountID)
	}
	b.settings.Open = false
	if _, _, err := b.SignInVerified(ctx, "bob@example.com", here); !fault.Is(err, fault.Forbidden) {
		t.Errorf("SignInVerified of a stranger where sign-up is not open = %v, want a refusal", err)
	}
	if _, err := b.SignIn(ctx, "ana@example.com", "", here); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("SignIn without a password = %v, want unauthenticated", err)
	}
}

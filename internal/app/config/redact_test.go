package config

import (
	"strings"
	"testing"
)

func TestWithoutSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        "",
		"plain text":              "plain text",
		"https://a.example/v1":    "https://a.example/v1",
		"https://me:pw@a.example": "https://me:(hidden)@a.example",
		"https://token@a.example": "https://(hidden)@a.example",
		"postgres://u:p@h/db?sslmode=disable&password=x": "postgres://u:(hidden)@h/db?password=(hidden)&sslmode=(hidden)",
		"https://a\x7f.example":                          "(hidden)",
	} {
		if got := WithoutSecrets(text); got != want {
			t.Errorf("WithoutSecrets(%q) = %q, want %q", text, got, want)
		}
	}
}

// Everything in the example that is a secret, or stands in the place of one, is hidden; and the result
// is a configuration, so that people can try it.
func TestRedacted(t *testing.T) {
	t.Parallel()
	const canary = "canary0123456789canary0123456789canary"
	c, problem := loadText(t, `
secret: `+canary+`
redis: redis://me:`+canary+`@127.0.0.1/0
database: postgres://me:`+canary+`@127.0.0.1/db?password=`+canary+`
providers:
- {name: one, kind: openai, base_url: "https://me:`+canary+`@a.example/v1", api_key: "${KEY}", api_keys: [`+canary+`]}
- {name: two, kind: bedrock, region: us-east-1, access_key_id: id, secret_access_key: `+canary+`, session_token: `+canary+`}
models: [{id: m, targets: [{provider: one}, {provider: two, weight: 0}], plan: free, context_length: 10, max_output: 5, unit_cost: 1.5, pricing: {input: 0.25}}]
plans: {free: {concurrent: unlimited}}
trusted_proxies: [10.0.0.0/8]
smtp: {server: "127.0.0.1:25", from: a@b.example, password: `+canary+`}
oidc: {issuer: "https://a.example", client_id: x, client_secret: `+canary+`}
blob: {kind: s3, endpoint: "https://s3.example.com", bucket: b, access_key: `+canary+`, secret_key: `+canary+`}
billing: {processor: stripe, secret_key: `+canary+`, webhook_secret: `+canary+`}
public_url: https://api.example.com
video: {provider: v, providers: [{name: v, kind: veo, base_url: "https://v.example", model: m, api_key: `+canary+`}]}
`, "KEY="+canary)
	if problem != "" {
		t.Fatal(problem)
	}
	got := c.Redacted()
	if strings.Contains(got, "canary") {
		t.Errorf("Redacted() = %s\nwant no secret in it", got)
	}
	for _, want := range []string{
		`api_key: "${KEY}"`, `api_keys: ["(hidden)"]`, `secret: "(hidden)"`, "concurrent: unlimited", `trusted_proxies: ["10.0.0.0/8"]`, "unit_cost: 1.5", "input: 0.25",
		`database: "postgres://me:(hidden)@127.0.0.1/db?password=(hidden)"`, "      -\n", "        weight: 0",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("Redacted() = %s\nwant %s in it", got, want)
		}
	}
}

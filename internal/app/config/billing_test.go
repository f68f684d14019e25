package config

import "testing"

func TestPaymentProcessor(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"":                                  "testpay",
		"listen: 0.0.0.0:80":                "none",
		"public_url: https://a.example.com": "none",
		"listen: 0.0.0.0:80\nbilling: {processor: testpay}": "testpay",
		"billing: {processor: none}":                        "none",
	} {
		c, problem := loadText(t, file)
		if problem != "" {
			t.Errorf("Load(%q) = %s", file, problem)
		} else if got := c.PaymentProcessor(true); got != want {
			t.Errorf("Load(%q).PaymentProcessor(true) = %s, want %s", file, got, want)
		}
	}
}

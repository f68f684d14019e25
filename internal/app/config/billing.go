package config

var paymentProcessors = []string{"testpay", "stripe", "none"}

func (r *record) checkBilling(c *Config) {
	b := c.Billing
	if b.Processor != "" {
		r.checkOneOf("billing.processor", b.Processor, "payment processor", paymentProcessors)
	}
	r.checkBase("billing.api_url", b.APIURL)
	r.checkKey("billing.secret_key", b.SecretKey)
	r.checkKey("billing.webhook_secret", b.WebhookSecret)
	if b.Processor == "testpay" && !c.private() {
		r.warn("billing.processor", "the service can be reached from other machines, so anyone with an account can get a paid plan with a test card; use stripe or none")
	}
	if b.Processor != "stripe" {
		return
	}
	for _, needed := range []struct {
		path  string
		value Secret
	}{{"billing.secret_key", b.SecretKey}, {"billing.webhook_secret", b.WebhookSecret}} {
		r.failIf(needed.value == "", needed.path, "is required if billing.processor is stripe")
	}
}

// PaymentProcessor returns the payment processor: the configured one, or else testpay on
// loopback and none otherwise. For local, see SignupMode.
func (c *Config) PaymentProcessor(local bool) string {
	switch {
	case c.Billing.Processor != "":
		return c.Billing.Processor
	case local && c.private():
		return "testpay"
	}
	return "none"
}

// WithdrawsTestCard reports whether the test card that a server was started with is refused from now on. It gives plans
// away, so it is only for a developer's own machine: unless the operator has chosen it, it ends when a request from
// elsewhere arrives, or when the configuration in force, now, has a public_url. c is the configuration of the start.
func (c *Config) WithdrawsTestCard(now *Config, local bool) bool {
	return c.Billing.Processor == "" && now.PaymentProcessor(local) != "testpay"
}

// private reports whether, according to the configuration, only this machine can reach the
// service.
func (c *Config) private() bool { return isLoopback(c.Listen) && c.PublicURL == "" }

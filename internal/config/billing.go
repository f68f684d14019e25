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
		r.warn("billing.processor", "the service can be reached from elsewhere, and anybody with an account can take a paid plan with a test card; use stripe or none")
	}
	if b.Processor != "stripe" {
		return
	}
	for _, needed := range []struct {
		path  string
		value Secret
	}{{"billing.secret_key", b.SecretKey}, {"billing.webhook_secret", b.WebhookSecret}} {
		if needed.value == "" {
			r.fail(needed.path, "is required where billing.processor is stripe")
		}
	}
}

// PaymentProcessor is who moves the money: what is set, or else testpay on loopback and none elsewhere. Local is as
// for SignupMode.
func (c *Config) PaymentProcessor(local bool) string {
	switch {
	case c.Billing.Processor != "":
		return c.Billing.Processor
	case local && c.private():
		return "testpay"
	}
	return "none"
}

// private reports whether only this machine can reach the service, as far as the configuration tells.
func (c *Config) private() bool { return isLoopback(c.Listen) && c.PublicURL == "" }

package settings

import (
	"sluice/internal/account/signin"
	"sluice/internal/kit/telemetry"
	"sluice/internal/operate/alert"
)

// Signin returns the settings of signing in. local says that all requests so far came from
// this machine. A mode that is neither open nor closed means by invitation.
func (s *Settings) Signin(origin string, local bool) signin.Settings {
	mode := s.Config.SignupMode(local)
	return signin.Settings{Origin: origin, Open: mode == "open", Closed: mode == "closed", Support: s.Config.Support.String(), Brand: s.Config.ShownName()}
}

// Alerts returns the part of the settings that alerts need.
func (s *Settings) Alerts() (out alert.Settings) {
	c := &s.Config.Alerts
	for _, address := range c.Email {
		out.Operator = append(out.Operator, alert.Endpoint{ID: alert.OperatorEndpoint(alert.Mail, address), Kind: alert.Mail, To: address})
	}
	for _, w := range c.Webhooks {
		e := alert.Endpoint{ID: alert.OperatorEndpoint(alert.Web, w.Name), Kind: alert.Web, To: w.URL, Secret: alert.Secret(w.Secret.Reveal())}
		for _, t := range w.Events {
			e.Types = append(e.Types, alert.Type(t))
		}
		out.Operator = append(out.Operator, e)
	}
	out.AllowHosts = c.AllowHosts
	return out
}

// Sampling returns what a reload may change about traces.
func (s *Settings) Sampling() telemetry.Sampling {
	t := &s.Config.Traces
	return telemetry.Sampling{Share: float64(t.Sample) / 1000, Follow: t.Follow == "all", Content: t.Capture == "content"}
}

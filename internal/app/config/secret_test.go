package config

import (
	"strings"
	"testing"
)

func TestSecretSetting(t *testing.T) {
	t.Parallel()
	const long = "0123456789abcdef0123456789abcdef"
	c, err := Load(Source{Environ: []string{"SLUICE_SECRET=" + long}})
	if err != nil || c.Secret.Reveal() != long || len(c.Warnings()) > 0 {
		t.Errorf("Load = %v, warnings %q, want the secret and no warning", err, c.Warnings())
	}
	for _, short := range []string{"x", long[1:], long + " " + long} {
		if _, err := Load(Source{Environ: []string{"SLUICE_SECRET=" + short}}); err == nil || !strings.Contains(err.Error(), "SLUICE_SECRET: secret: must") || strings.Contains(err.Error(), long) {
			t.Errorf("Load with a secret of %d characters = %v, want an error that does not show it", len(short), err)
		}
	}
}

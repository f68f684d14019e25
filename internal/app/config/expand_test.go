package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{
		"plain": "from a file", "newline": "one\n", "two": "one\n\n", "windows": "one\r\n", "inside": "${A}", "empty": "", "blank": "\n",
		"largest": strings.Repeat("x", maxSecretBytes), "larger": strings.Repeat("x", maxSecretBytes+1),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := &decoder{env: map[string]string{"A": "a", "B_2": "b", "EMPTY": "", "NESTED": "${A}"}, readFile: (&sources{}).readSecret}
	for _, test := range []struct{ text, want, wantErr string }{
		{text: "", want: ""},
		{text: "plain $ text $A {A} $$ }", want: "plain $ text $A {A} $$ }"},
		{text: "${A}", want: "a"},
		{text: "<${A}${B_2}>", want: "<ab>"},
		{text: "<${A}${EMPTY}>", wantErr: "the environment variable EMPTY is empty; give it a value, or remove this line"},
		{text: "${NESTED}", want: "${A}"},
		{text: "$${A}", want: "${A}"},
		{text: "$$${A}", want: "$${A}"},
		{text: "a$${${A}}", want: "a${a}"},
		{text: "${file:DIR/plain}!", want: "from a file!"},
		{text: "${file:DIR/newline}!", want: "one!"},
		{text: "${file:DIR/two}!", want: "one\n!"},
		{text: "${file:DIR/windows}!", want: "one!"},
		{text: "${file:DIR/inside}", want: "${A}"},
		{text: "${file:DIR/largest}", want: files["largest"]},
		{text: "${file:DIR/larger}", wantErr: `cannot read "DIR/larger": it is larger than 64 KiB`},
		{text: "${file:DIR/empty}", wantErr: `the file "DIR/empty" is empty`},
		{text: "${file:DIR/blank}", wantErr: `the file "DIR/blank" is empty`},
		{text: "${file:DIR/none}", wantErr: `cannot read "DIR/none": no such file or directory`},
		{text: "${file:DIR}", wantErr: `cannot read "DIR": is a directory`},
		{text: "${file:}", wantErr: `cannot read "": no such file or directory`},
		{text: "${NONE}", wantErr: "the environment variable NONE is not set; a server sees those that it was started with, and reads ${file:/path} again"},
		{text: "${A", wantErr: `"${" has no closing "}"; write "$${" for a literal "${"`},
		{text: "${}", wantErr: `"${}" is not the name of a variable; write ${NAME} or ${file:/path}, or "$${" for a literal "${"`},
		{text: "${A:-b}", wantErr: `"${A:-b}" is not the name of a variable; write ${NAME} or ${file:/path}, or "$${" for a literal "${"`},
		{text: "${2A}", wantErr: `"${2A}" is not the name of a variable; write ${NAME} or ${file:/path}, or "$${" for a literal "${"`},
	} {
		got, err := d.expand(strings.ReplaceAll(test.text, "DIR", dir))
		gotErr := ""
		if err != nil {
			gotErr = strings.ReplaceAll(err.Error(), dir, "DIR")
		}
		if got != test.want || gotErr != test.wantErr {
			t.Errorf("expand(%q) = %.50q, %s, want %.50q, %s", test.text, got, gotErr, test.want, test.wantErr)
		}
	}
}

func TestExpandInFile(t *testing.T) {
	t.Parallel()
	c, problem := loadText(t, `
listen: ${HOST}:${PORT}
sandbox: ${SANDBOX}
shutdown_grace: "${SECONDS}s"
trusted_proxies: ["${NET}"]
data: '$${HOST}'
log: {level: "${LEVEL}"}
`+provider+"  api_key: ${KEY}\n"+strings.Replace(model, "1000", "${LENGTH}", 1)+"  request_multiplier: ${COST}\n",
		"HOST=127.0.0.1", "PORT=99", "SANDBOX=false", "SECONDS=5", "NET=10.0.0.0/8", "LEVEL=warn", "KEY=sk-1", "LENGTH=2000", "COST=0.5")
	if problem != "" {
		t.Fatal(problem)
	}
	if c.Listen != "127.0.0.1:99" || c.Sandbox || c.DrainTimeout.Seconds() != 5 || c.TrustedProxies[0].String() != "10.0.0.0/8" || c.Data != "${HOST}" ||
		c.Log.Level != "warn" || c.Providers[0].APIKey.Reveal() != "sk-1" || c.Models[0].ContextLength != 2000 || c.Models[0].RequestMultiplier != 500 {
		t.Errorf("Load = %+v, which is not what the variables say", c)
	}
	if len(c.Warnings()) != 0 {
		t.Errorf("Load warns %q, want nothing", c.Warnings())
	}

	_, got := loadText(t, "data: a\nlog:\n  level: \"${NONE}\"\ntls: {cert: '${file:/nowhere}', key: '${'}\nsandbox: ${S}\nbrand: ${EMPTY}\n", "S=perhaps", "EMPTY=")
	want := `sluice.yaml:3:10: log.level: the environment variable NONE is not set; a server sees those that it was started with, and reads ${file:/path} again
sluice.yaml:4:13: tls.cert: cannot read "/nowhere": no such file or directory
sluice.yaml:4:38: tls.key: "${" has no closing "}"; write "$${" for a literal "${"
sluice.yaml:5:10: sandbox: expected true or false, found "${S}"
sluice.yaml:6:8: brand: the environment variable EMPTY is empty; give it a value, or remove this line`
	if got != want {
		t.Errorf("Load =\n%s\nwant\n%s", got, want)
	}
}

// A password in an address may have any character. One that is escaped already stays as it is.
func TestExpandInAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, value, want string }{
		{"postgres://sluice:${P}@db/sluice", "plain", "postgres://sluice:plain@db/sluice"},
		{"postgres://sluice:${P}@db/sluice", "a@b/c:d#e?f g%h", "postgres://sluice:a%40b%2Fc%3Ad%23e%3Ff%20g%25h@db/sluice"},
		{"postgres://sluice:${P}@db/sluice", "a+b=$&'", "postgres://sluice:a+b=$&'@db/sluice"},
		{"postgres://sluice:${P}@db/sluice", "a%40b", "postgres://sluice:a%40b@db/sluice"},
		{"redis://:${P}@cache:6379", "a@b", "redis://:a%40b@cache:6379"},
		{"postgres://${P}:x@db/sluice", "a@b", "postgres://a%40b:x@db/sluice"},
		{"${P}://sluice@db/sluice", "postgres", "postgres://sluice@db/sluice"},
		{"postgres://sluice@${P}/sluice", "[::1]:5432", "postgres://sluice@[::1]:5432/sluice"},
		{"postgres://sluice@db/sluice?password=${P}", "a b", "postgres://sluice@db/sluice?password=a b"},
		{"s3://b?endpoint=http://${P}&x=a@b", "host:9/", "s3://b?endpoint=http://host:9/&x=a@b"},
		{"${P}", "postgres://u:a b@c/d", "postgres://u:a b@c/d"},
		{"Sluice <${P}@example.com>", "a/b", "Sluice <a/b@example.com>"},
	} {
		d := &decoder{env: map[string]string{"P": test.value}}
		if got, err := d.expand(test.text); err != nil || got != test.want {
			t.Errorf("expand(%q) with %q = %q, %v, want %q", test.text, test.value, got, err, test.want)
		}
	}
}

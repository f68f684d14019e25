package netguard

import (
	"errors"
	"testing"
)

func TestCheckHost(t *testing.T) {
	t.Parallel()
	for host, public := range map[string]bool{
		"example.com": true, "EXAMPLE.com": true, "images.example.co.uk": true, "93.184.216.34": true, "xn--bcher-kva.example": true, "a-b.example.com": true,
		"2606:2800:220:1:248:1893:25c8:1946": true, "[2606:2800:220:1:248:1893:25c8:1946]": true, "169.254.169.254.nip.io": true, "0x.example.com": true, "cdn_1.example.com": true,

		"": false, ".": false, "example.com.": false, "localhost": false, "LOCALHOST": false, "localhost.": false, "a.localhost": false, "ollama": false, "ip6-localhost": false,
		"metadata.google.internal": false, "METADATA.google.Internal": false, "printer.local": false, "db.corp": false, "x.svc": false, "kubernetes.default.svc.cluster.local": false, "nas.home.arpa": false,
		"127.0.0.1": false, "127.8.8.8": false, "0.0.0.0": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "100.64.0.1": false, "169.254.169.254": false,
		"168.63.129.16": false, "224.0.0.1": false, "255.255.255.255": false, "192.0.2.1": false, "198.18.0.1": false, "240.0.0.1": false,
		"127.1": false, "127.0.1": false, "0177.0.0.1": false, "017700000001": false, "2130706433": false, "0x7f000001": false, "0x7f.1": false, "0X7F.0.0.1": false, "0x7f.0x0.0x0.0x1": false,
		"2852039166": false, "0xa9fea9fe": false, "0251.0376.0251.0376": false, "169.254.43518": false, "127.0.0.1.": false, "example.0x7f": false, "1.2.3.4.5": false, "999.999.999.999": false,
		"::": false, "::1": false, "[::1]": false, "::ffff:127.0.0.1": false, "[::ffff:169.254.169.254]": false, "::ffff:7f00:1": false, "64:ff9b::a9fe:a9fe": false, "fe80::1": false,
		"[fe80::1%25eth0]": false, "fe80::1%eth0": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "2002:7f00:1::": false, "::127.0.0.1": false, "100::1": false, "2001:db8::1": false,
		"127。0。0。1": false, "①②⑦.⓪.⓪.①": false, "bücher.example": false, "127.0.0.1%2f.example.com": false, "exa mple.com": false, "a\\b.example.com": false, "a@example.com": false, "exam\tple.com": false,
	} {
		if err := CheckHost(host); (err == nil) != public || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("CheckHost(%q) = %v, want it public: %t", host, err, public)
		}
	}
}

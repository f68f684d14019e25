package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"sluice/bench/floor"
	"sluice/bench/process"
	"sluice/bench/upstream"
	"sluice/internal/account"
)

// target is a running program under load, in a process of its own, so that its CPU time and
// memory can be told apart from those of the others.
type target struct {
	name string // direct, floor or sluice: a column of the results
	addr string // host and port
	key  string // the API key; empty if it needs none
	data string // the data folder of a gateway
	// keys are those of the callers, in turn, if each has its own.
	keys  []string
	model string // the name of the model that it serves
	// lag is how long the target may defer work; see plan.
	lag time.Duration
	// metrics is the address of its metrics; empty if it shows none.
	metrics string
	// answered is how many replies of it were whole.
	answered atomic.Int64
	// secure is the same program in front of an upstream with TLS, or nil if there is none. It may
	// share its process.
	secure *target
	*process.Process
}

// The name of the upstream's model, and the key that the floor accepts.
const (
	upstreamModel = "gpt-4o-mini"
	floorKey      = "bench"
)

// startAll starts the upstream, the floor and the gateway, in this order, and upstream and floor
// once more with TLS between them. The caller must call stop, even after an error. It returns
// once all of them give correct replies. more are further arguments of the gateway.
func startAll(ctx context.Context, self, bin, scratch string, more ...string) (targets []*target, stop func(), err error) {
	var running []*process.Process
	stop = func() {
		for _, p := range running {
			p.Stop()
		}
	}
	launch := func(t *target, opts *process.Options, program string, args ...string) error {
		if t.Process, err = process.Start(ctx, opts, program, args...); err != nil {
			return err
		}
		running = append(running, t.Process)
		return nil
	}
	start := func(t *target, opts *process.Options, program string, args ...string) error {
		targets = append(targets, t)
		return launch(t, opts, program, args...)
	}
	// One address for each program. They are chosen first, because the programs refer to each
	// other.
	addrs := make([]string, 4)
	for i := range addrs {
		if addrs[i], err = process.FreeAddress(); err != nil {
			return nil, stop, err
		}
	}
	baseURL := "http://" + addrs[0] + "/v1"
	direct := &target{name: "direct", addr: addrs[0], model: upstreamModel}
	if err := start(direct, nil, self, "upstream", addrs[0]); err != nil {
		return targets, stop, err
	}
	bare := &target{name: "floor", addr: addrs[1], key: floorKey, model: upstreamModel}
	if err := start(bare, nil, self, "floor", addrs[1], baseURL, floorKey); err != nil {
		return targets, stop, err
	}

	certificate, key := filepath.Join(scratch, "cert.pem"), filepath.Join(scratch, "key.pem")
	if err := makeCertificate(certificate, key); err != nil {
		return targets, stop, err
	}
	trust := []string{"SSL_CERT_FILE=" + certificate} // instead of the system's
	secure := &target{name: "upstream with TLS", addr: addrs[2]}
	if err := launch(secure, nil, self, "upstream", addrs[2], certificate, key); err != nil {
		return targets, stop, err
	}
	secureURL := "https://" + addrs[2] + "/v1"
	bare.secure = &target{name: "floor", addr: addrs[3], key: floorKey, model: upstreamModel}
	if err := launch(bare.secure, &process.Options{Env: trust}, self, "floor", addrs[3], secureURL, floorKey); err != nil {
		return targets, stop, err
	}

	gateway, err := startGateway(ctx, bin, scratch, configuration(baseURL, secureURL), trust, more...)
	if gateway != nil {
		targets, running = append(targets, gateway), append(running, gateway.Process)
	}
	if err != nil {
		return targets, stop, err
	}
	gateway.name, gateway.model = "sluice", "bench/gpt"
	if err := gateway.open(ctx, bin, "unlimited"); err != nil {
		return targets, stop, err
	}
	gateway.secure = &target{name: "sluice", addr: gateway.addr, key: gateway.key, model: "bench/secure", Process: gateway.Process}
	// Nothing probes it alone, and those in front of it answer 502 as long as it does not listen.
	if err := secure.listens(ctx); err != nil {
		return targets, stop, err
	}
	for _, t := range []*target{direct, bare, bare.secure, gateway, gateway.secure} {
		if err := t.probe(ctx); err != nil {
			return targets, stop, err
		}
	}
	return targets, stop, nil
}

// startGateway starts a gateway with a configuration in a folder, in which it has its data, and waits until it accepts
// connections. env is added to its environment, and more to its arguments. After an error, the target is the process to stop, or nil.
func startGateway(ctx context.Context, bin, folder, yaml string, env []string, more ...string) (*target, error) {
	data, file := filepath.Join(folder, "data"), filepath.Join(folder, "sluice.yaml")
	if err := errors.Join(os.MkdirAll(data, 0o700), os.WriteFile(file, []byte(yaml), 0o600)); err != nil {
		return nil, err
	}
	addr, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	// The log goes to a file: writing to this process would cost CPU time on both sides.
	log, err := os.Create(filepath.Join(folder, "sluice.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the gateway has its own descriptor
	t := &target{name: "sluice", addr: addr, data: data}
	t.Process, err = process.Start(ctx, &process.Options{Dir: data, Output: log, Env: env}, bin, append([]string{"serve", "--config", file, "--data", data, "--listen", addr, "--metrics-listen", ""}, more...)...)
	if err != nil {
		return nil, err
	}
	if err := t.listens(ctx); err != nil {
		text, _ := os.ReadFile(log.Name()) // a part of it is enough
		return t, fmt.Errorf("%w\n%s", err, text)
	}
	return t, nil
}

// open makes a gateway with new data take the load: it gets a key of the owner, whom nobody has seen yet, and sets the
// limits of that account, since those of a plan would refuse nearly all of the load.
func (t *target) open(ctx context.Context, bin, limit string) (err error) {
	if t.key, err = process.MasterKey(ctx, bin, t.data); err != nil {
		return err
	}
	_, err = process.Run(ctx, bin, t.data, "account", "set-limits", account.OwnerEmail, "--rpm", limit, "--concurrent", limit, "--tpm", limit)
	return err
}

// configuration returns the gateway's configuration: the defaults and one model at each
// upstream, which every plan may call, with any prompt. Tool servers may be on this machine.
func configuration(baseURL, secureURL string) string {
	return fmt.Sprintf(`mcp: {allow_hosts: [127.0.0.1]}
providers:
  - {name: bench, kind: openai, base_url: %q}
  - {name: secure, kind: openai, base_url: %q}
models:
  - {id: bench/gpt, provider: bench, upstream: %[3]s, plan: free, context_length: 100000000, max_output: 16000, tool_calling: true}
  - {id: bench/secure, provider: secure, upstream: %[3]s, plan: free, context_length: 100000000, max_output: 16000, quality: 1} # the router chooses the other one
`, baseURL, secureURL, upstreamModel)
}

// makeCertificate writes a new certificate for this machine, and its key.
func makeCertificate(certificate, key string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

// listens waits until the target accepts connections, for process.Patience since its start at most.
func (t *target) listens(ctx context.Context) error {
	for deadline := t.Began().Add(process.Patience); time.Now().Before(deadline); {
		c, err := net.DialTimeout("tcp", t.addr, process.Patience)
		if err == nil {
			return c.Close()
		}
		select {
		case <-t.Exited():
			return fmt.Errorf("%s ended before it accepted a connection", t.name)
		case <-ctx.Done():
			return errors.New("interrupted")
		case <-time.After(5 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s accepted no connection within %v", t.name, process.Patience)
}

// rest waits until the target is idle and returns the CPU time it has used so far. Idle means
// at most 10 ms of CPU time in 100 ms: one tick of the kernel's clock. It waits for lag first,
// since a target that will wake up later looks idle too.
func (t *target) rest(ctx context.Context) (time.Duration, error) {
	const glance, idle = 100 * time.Millisecond, 10 * time.Millisecond
	if err := wait(ctx, t.lag); err != nil {
		return 0, err
	}
	deadline := time.Now().Add(process.Patience)
	for {
		before, err := t.CPU()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", t.name, err)
		}
		if err := wait(ctx, glance); err != nil {
			return 0, err
		}
		after, err := t.CPU()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", t.name, err)
		}
		if after-before <= idle {
			return after, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("%s is still busy %v after its last call", t.name, process.Patience)
		}
	}
}

// probe checks that the target replies correctly, both plain and streamed.
func (t *target) probe(ctx context.Context) error {
	if err := t.listens(ctx); err != nil {
		return err
	}
	c := newConn(t.addr)
	defer c.close()
	for _, w := range []workload{{}, {chunks: 5}} {
		if err := w.call(c, w.request(t), func() {}); err != nil {
			return fmt.Errorf("%s does not work: %w", t.name, err)
		}
		t.answered.Add(1)
	}
	return nil
}

// roles are what this program does when it starts itself as a child process, by its first
// argument. One program is easier to build and to run than three.
var roles = map[string]func(l net.Listener, args []string) error{
	"upstream": func(l net.Listener, args []string) error {
		if len(args) == 2 { // a certificate and its key
			pair, err := tls.LoadX509KeyPair(args[0], args[1])
			if err != nil {
				return err
			}
			l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}})
		}
		return upstream.Serve(l)
	},
	"tools": serveTools,
	"floor": func(l net.Listener, args []string) error {
		if len(args) != 2 {
			return errors.New("the floor needs the upstream's URL and a key")
		}
		p, err := floor.New(args[0], args[1])
		if err != nil {
			return err
		}
		return http.Serve(l, p) //nolint:gosec // its only client is this program
	},
}

// play runs the role that the arguments name, on the address that follows, until the process
// is stopped.
func play(args []string) error {
	if len(args) < 2 {
		return errors.New("an address is missing")
	}
	l, err := net.Listen("tcp", args[1])
	if err != nil {
		return err
	}
	return roles[args[0]](l, args[2:])
}

package app_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"sluice/internal/account"
	"sluice/internal/app/config"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/wiretest"
)

// twoNodes are two servers on one database, started at the same time on an empty one.
func twoNodes(t *testing.T) (one, two *node, key string) {
	t.Helper()
	yaml := "database: " + pgtest.URL(t) + "\nsecret: one-secret-for-all-nodes-of-this-test\ncluster: approximate\n"
	sites := [2]*site{newSite(t, yaml), newSite(t, yaml)}
	configs := [2]*config.Config{sites[0].config(t), sites[1].config(t)}
	var nodes [2]*node
	var errs [2]error
	var starting sync.WaitGroup
	for i := range sites {
		starting.Go(func() { nodes[i], errs[i] = sites[i].launchAgain(t, configs[i]) })
	}
	starting.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatalf("New = %v", err)
	}
	keys := nodes[0].OwnerKey() + nodes[1].OwnerKey()
	if !account.Wellformed("service", keys) {
		t.Fatalf("the two nodes show the owner's keys %q and %q, want exactly one of them to create it", nodes[0].OwnerKey(), nodes[1].OwnerKey())
	}
	return nodes[0], nodes[1], keys
}

// within waits until a node answers a key with the status.
func (n *node) within(key string, status int) {
	n.t.Helper()
	eventually(n.t, "the change on the other node", func() bool { return n.get("/v1/models", key).status == status })
}

// What is changed on one node is known on the other: soon there, at once here.
func TestFollow(t *testing.T) {
	t.Parallel()
	one, two, owner := twoNodes(t)
	for _, n := range []*node{one, two} {
		n.within(owner, 200)
		if status := must[admin.Status](n, "status", admin.Empty{}); status.Database != "PostgreSQL" || status.Accounts != 1 {
			t.Errorf("status = %+v, want PostgreSQL with one account", status)
		}
	}

	made := must[admin.CreatedAccount](one, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com"})
	two.within(made.MasterKey, 200)
	for _, step := range []struct {
		name   string
		do     func()
		status int
	}{
		{"suspend", func() { must[any](one, "account.suspend", admin.Target{Actor: "t", Ref: made.ID, Reason: "r"}) }, 423},
		{"unsuspend", func() { must[any](two, "account.unsuspend", admin.Target{Actor: "t", Ref: made.ID}) }, 200},
		{"deactivate", func() { must[any](two, "key.deactivate", admin.Target{Actor: "t", Ref: made.ID, Reason: "r"}) }, 401},
		{"restore", func() { must[any](one, "key.restore", admin.Target{Actor: "t", Ref: made.ID}) }, 200},
		{"regenerate", func() { must[any](one, "key.regenerate-master", admin.Target{Actor: "t", Ref: made.ID}) }, 401},
	} {
		t.Log(step.name)
		step.do()
		for _, n := range []*node{one, two} {
			n.within(made.MasterKey, step.status)
		}
	}
}

// A database that is down locks nobody out; what needs it says so, and it all mends itself.
func TestDatabaseDown(t *testing.T) {
	t.Parallel()
	line, address := wiretest.To(t, pgtest.URL(t))
	n := newSite(t, "database: "+address+"\n").start(t)
	key := n.OwnerKey()
	line.Cut()
	if r := n.get("/v1/models", key); r.status != 200 {
		t.Errorf("GET /v1/models without the database = %d %s, want 200: the key is known", r.status, r.body)
	}
	if r := n.get("/v1/models", typo(key)); r.status != 401 {
		t.Errorf("GET /v1/models with a wrong key and without the database = %d, want 401", r.status)
	}
	eventually(t, "a note about the database", func() bool {
		r := n.get("/readyz", "")
		return r.status == 200 && strings.Contains(r.body, `{"name":"database","ok":true,"message":"no answer for `)
	})
	if r := n.get("/healthz", ""); r.status != 200 {
		t.Errorf("GET /healthz without the database = %d, want 200", r.status)
	}
	if status := must[admin.Status](n, "status", admin.Empty{}); status.DBError == "" {
		t.Error("status does not tell that the database is away")
	}
	if err := n.call("account.create", admin.NewAccount{Actor: "t", Email: "b@example.com"}, &admin.CreatedAccount{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("account.create without the database = %v, want it unavailable", err)
	}
	eventually(t, "a warning", func() bool { return strings.Contains(n.log.String(), "changes made by other nodes do not arrive") })

	line.Mend()
	eventually(t, "readiness", func() bool { return n.get("/readyz", "").status == 200 })
	must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "b@example.com"})
	eventually(t, "the all-clear", func() bool { return strings.Contains(n.log.String(), "changes made by other nodes arrive again") })
}

// typo changes one character of a key.
func typo(key string) string {
	c := byte('a')
	if key[20] == c {
		c = 'b'
	}
	return key[:20] + string(c) + key[21:]
}

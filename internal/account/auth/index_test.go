package auth

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/account"
)

// fill sets v, and everything in it, to something that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.String:
		v.SetString("text")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		fill(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1_700_000_000, 5_000_000).UTC()))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	default:
		panic("no value of kind " + v.Kind().String())
	}
}

// Every field of an account is either encoded and decoded, or the account is held as it is.
func TestEncode(t *testing.T) {
	t.Parallel()
	base := func() *account.Account {
		return &account.Account{ID: "acct_1", Email: "a@example.com", Version: 3, Keys: []account.Key{{ID: "key_1"}, {ID: "key_2", Name: "Laptop"}}}
	}
	encoded := 0
	try := func(name string, a *account.Account) {
		t.Helper()
		b, ok := encode(nil, a)
		if !ok {
			return
		}
		encoded++
		if got := decode(b); !reflect.DeepEqual(got, a) {
			t.Errorf("%s: decode = %+v, want %+v", name, got, a)
		}
		if !isOf(b, a.ID) || isOf(b, a.ID+"x") {
			t.Errorf("%s: the id is not found", name)
		}
	}
	try("nothing", &account.Account{})
	for i, f := range reflect.VisibleFields(reflect.TypeFor[account.Account]()) {
		a := base()
		fill(reflect.ValueOf(a).Elem().Field(i))
		if f.Name != "Keys" {
			try(f.Name, a)
		}
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]() {
			for j := range f.Type.NumField() {
				a := base()
				fill(reflect.ValueOf(a).Elem().Field(i).Field(j))
				try(f.Name+"."+f.Type.Field(j).Name, a)
			}
		}
	}
	for j, f := range reflect.VisibleFields(reflect.TypeFor[account.Key]()) {
		a := base()
		fill(reflect.ValueOf(&a.Keys[1]).Elem().Field(j))
		try("Keys."+f.Name, a)
	}
	for _, mark := range []account.Mark{{At: time.Unix(1, 0).UTC(), Reason: "r"}, {Final: true}} {
		a := base()
		a.Suspended, a.Deactivated = &mark, &account.Mark{Reason: "other"}
		try("marks", a)
	}
	low := account.Unlimited
	a := base()
	a.Overrides.Concurrent = &low
	try("an override", a)
	if encoded < 25 {
		t.Errorf("%d accounts were encoded, want most of them", encoded)
	}
	for name, change := range map[string]func(*account.Account){
		"a time elsewhere":   func(a *account.Account) { a.CreatedAt = time.Unix(1, 0).In(time.FixedZone("x", 60)) },
		"a budget":           func(a *account.Account) { a.Budgets = make([]account.Budget, 1) },
		"limits of a key":    func(a *account.Account) { a.Keys[0].Limits = &account.KeyLimits{} },
		"tags of a key":      func(a *account.Account) { a.Keys[0].Tags = []string{"a=b"} },
		"an enormous reason": func(a *account.Account) { a.Suspended = &account.Mark{Reason: string(make([]byte, maxEncoded))} },
	} {
		a := base()
		if change(a); second(encode(nil, a)) {
			t.Errorf("%s: the account is encoded, want it held as it is", name)
		}
	}
}

func second[T any](_ T, ok bool) bool { return ok }

// hashOf returns the hash of the n-th key that an account ever had.
func hashOf(id string, n int) account.Hash { return account.HashKey(fmt.Sprint(id, " ", n)) }

// An index does what a map of accounts does, whatever is put into it in which order.
func TestIndexIsAMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 0))
		ix, want, locked := NewIndex(), map[string]*account.Account{}, map[string]bool{}
		made := map[string]int{}
		gone := map[account.Hash]bool{}
		// Few enough to be changed often, and in one seed of four many that share a place in hot.
		ids := 1 + random.IntN(40)
		if seed%4 == 0 {
			ids = 2*recent + 10
			for i := range ids {
				id := fmt.Sprint("acct_", i)
				want[id] = &account.Account{ID: id, Email: id + "@example.com", Version: 1, Keys: []account.Key{{ID: "key_" + id, Master: true, Hash: hashOf(id, 0)}}}
				made[id] = 1
				ix.Put(want[id])
			}
		}
		for range 3000 {
			id := fmt.Sprint("acct_", random.IntN(ids))
			was := want[id]
			switch random.IntN(10) {
			case 0:
				if was != nil { // an older state arrives late
					old := *was
					old.Version--
					old.Keys = nil
					ix.Put(&old)
				}
			case 1:
				ix.Lock(id, account.Mark{Reason: "score"})
				if was != nil && was.Deactivated == nil {
					locked[id] = true
				}
			case 2:
				ix.Unlock(id)
				delete(locked, id)
			default:
				next := account.Account{ID: id, Email: fmt.Sprintf("%s-%x@example.com", id, random.Uint32())}
				if was != nil {
					next = *was
					next.Keys = slices.Clone(was.Keys)
				}
				next.Version++
				if random.IntN(3) == 0 && len(next.Keys) > 0 {
					i := random.IntN(len(next.Keys))
					gone[next.Keys[i].Hash] = true
					next.Keys = slices.Delete(next.Keys, i, i+1)
				}
				if random.IntN(2) == 0 && len(next.Keys) < 5 {
					k := account.Key{ID: fmt.Sprintf("key_%s_%d", id, made[id]), Hash: hashOf(id, made[id])}
					made[id]++
					if random.IntN(3) == 0 {
						k.Tags = []string{"a=b"} // the account is held as it is
					}
					next.Keys = append(next.Keys, k)
				}
				if next.Deactivated = nil; random.IntN(6) == 0 {
					next.Deactivated = &account.Mark{Reason: "stored"}
					delete(locked, id)
				}
				if next.Suspended = nil; random.IntN(6) == 0 {
					next.Suspended = &account.Mark{Reason: string(make([]byte, random.IntN(2*minFreed)))}
				}
				want[id] = &next
				ix.Put(&next)
			}
			checkAccount(t, ix, id, want[id], locked[id])
		}
		for id, a := range want {
			checkAccount(t, ix, id, a, locked[id])
		}
		for h := range gone {
			if found, _ := ix.find(h, time.Now()); found != nil {
				t.Fatalf("seed %d: a key that was removed is found", seed)
			}
		}
		seen := map[string]bool{}
		ix.Each(func(a *account.Account) { seen[a.ID] = true })
		if len(seen) != len(want) || ix.Accounts() != len(want) || !maps.EqualFunc(seen, want, func(bool, *account.Account) bool { return true }) {
			t.Fatalf("seed %d: Each yields %d accounts, and there are %d, want %d", seed, len(seen), ix.Accounts(), len(want))
		}
		if ix.Account("acct_none") != nil {
			t.Fatal("an account is found that there is not")
		}
	}
}

// checkAccount compares what the index has of an account with a.
func checkAccount(t *testing.T, ix *Index, id string, a *account.Account, locked bool) {
	t.Helper()
	got := ix.Account(id)
	if a == nil || got == nil {
		if a != nil || got != nil {
			t.Fatalf("Account(%s) = %v, want %v", id, got, a)
		}
		return
	}
	want := *a
	if locked {
		want.Deactivated = got.Deactivated
		if got.Deactivated == nil {
			t.Fatalf("%s is locked, and its keys work", id)
		}
	}
	if len(want.Keys) == 0 {
		want.Keys = got.Keys[:0:0]
	}
	if !reflect.DeepEqual(got, &want) {
		t.Fatalf("Account(%s) = %+v, want %+v", id, got, &want)
	}
	for i := range a.Keys {
		h, k := ix.find(a.Keys[i].Hash, time.Now())
		if h == nil || h.account.ID != id || h.account.Version != a.Version || k.ID != a.Keys[i].ID {
			t.Fatalf("find(%s) = %v, want %s", a.Keys[i].ID, k, id)
		}
	}
}

// A request that begins after a change is confirmed sees it, while many accounts that share a place in hot change and are
// asked for at the same time.
func TestIndexConcurrently(t *testing.T) {
	t.Parallel()
	ix := NewIndex()
	const pairs = 4
	var versions [2 * pairs]atomic.Int64 // confirmed
	id := func(i int) string { return fmt.Sprint("acct_", i) }
	number := func(i int) int { return i/2 + i%2*recent } // two accounts for each place in hot
	put := func(i int, version int64) {
		a := &account.Account{ID: id(number(i)), Version: version, Keys: []account.Key{{ID: "master", Hash: hashOf(id(number(i)), 0)}, {ID: fmt.Sprint(version), Hash: hashOf(id(number(i)), int(version))}}}
		if version%5 == 0 {
			a.Keys[0].Tags = []string{"a=b"}
		}
		ix.Put(a)
	}
	for n := range recent + pairs {
		ix.Put(&account.Account{ID: id(n), Version: 1})
	}
	var readers, writers sync.WaitGroup
	var done atomic.Bool
	for i := range versions {
		versions[i].Store(1)
		put(i, 2)
		versions[i].Store(2)
		writers.Go(func() {
			for v := int64(3); v < 200; v++ {
				put(i, v)
				versions[i].Store(v)
			}
		})
	}
	for r := range 4 {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(r), 0))
			for !done.Load() {
				i := random.IntN(len(versions))
				least := versions[i].Load()
				name := id(number(i))
				h, k := ix.find(hashOf(name, 0), time.Now())
				if h == nil || h.account.ID != name || h.account.Version < least || k.ID != "master" {
					t.Errorf("find(%s) = %+v, want version %d or later", name, h, least)
					return
				}
				if a := ix.Account(name); a == nil || a.Version < h.account.Version {
					t.Errorf("Account(%s) = %+v after version %d", name, a, h.account.Version)
					return
				}
				if h, _ := ix.find(hashOf(name, int(least)-1), time.Now()); h != nil {
					t.Errorf("%s: a key that was removed by version %d is found", name, least)
					return
				}
				ix.UsedKeys()
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
}

// BenchmarkMark tells what a collection costs with a million accounts, which is what a large index costs requests.
func BenchmarkMark(b *testing.B) {
	ix := NewIndex()
	for i := range 1_000_000 {
		id := fmt.Sprintf("acct_%024d", i)
		ix.Put(&account.Account{
			ID: id, Email: fmt.Sprintf("user-%d@example.com", i), Version: 1,
			Keys: []account.Key{{ID: fmt.Sprintf("key_%024d", i), Master: true, Hash: account.HashKey(id), LastFour: "abcd"}},
		})
	}
	for b.Loop() {
		runtime.GC()
	}
	if ix.Accounts() == 0 {
		b.Fatal("the index is gone")
	}
}

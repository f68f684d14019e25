package admission

import (
	"fmt"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
)

// keyPlace is what a call has taken from the limits of its key. The ledger counts a key under the key's id, like an
// account with no bound on concurrent calls.
type keyPlace struct {
	id       string
	place    Place
	headroom Headroom
	units    Reserved // zero: the key has no monthly limit, or the call costs no units
}

// takeKey takes the cost of a call from the limits of its key, or returns a 429 fault that names the key and the limit in
// the way. It comes before the account's limits are asked: a call that its key refuses has then never taken anything
// from what the other keys of the account share.
func (g *Gate) takeKey(d *Demand, c Cost) (*keyPlace, error) {
	own := d.Caller.Limits
	narrow := own.PerMinute()
	job := c.Tokens == 0 // every call reserves some
	if job {
		narrow.TokensPerMinute = account.Unlimited
	}
	if l := narrow.TokensPerMinute; l != account.Unlimited {
		c.Tokens = min(c.Tokens, int64(l)) // as in Demand.cost: every valid call passes while the window is empty
	}
	k := &keyPlace{id: d.Caller.KeyID}
	var obstacle *Obstacle
	if k.place, k.headroom, obstacle = g.ledger.Take(k.id, narrow, c); obstacle != nil {
		g.count(obstacle)
		return nil, obstacle.keyFault(d, c)
	}
	units := d.unitMilli()
	// A call may cost units although the model that it names costs none. A job costs what it says.
	if own.UnitsPerMonth == nil || job && units == 0 || g.quota == nil {
		return k, nil
	}
	var used int64
	var err error
	if k.units, used, err = g.quota.reserve(d.Caller.Account.ID, k.id, *own.UnitsPerMonth, units); err == nil && k.units.key == nil {
		g.refused[Units].Add(1)
		err = unitsUsedUp(d, *own.UnitsPerMonth, used, units)
	}
	if err != nil {
		g.ledger.Free(k.id, k.place, Cost{})
		return nil, err
	}
	return k, nil
}

// freeKey ends what a call has taken from the limits of its key.
func (g *Gate) freeKey(k *keyPlace, used Cost, unitMilli int64) {
	g.ledger.Free(k.id, k.place, used)
	g.quota.settle(k.units, unitMilli)
}

// JobSettled corrects what a job has reserved of its key's month, once it is known what it cost. Reserved is what
// AdmitJob counted.
func (g *Gate) JobSettled(s *usage.Settlement, reservedMilli int64) {
	if g.quota != nil && s.UnitMilli != reservedMilli && s.KeyID != "" {
		g.quota.correct(s.KeyID, usage.MonthOf(s.At), s.UnitMilli-reservedMilli)
	}
}

// unitMilli returns the units that the call reserves of its key's month: those of the model that the request names.
// What answers in the end may cost more or less, which counts when the call is settled.
func (d *Demand) unitMilli() int64 {
	return d.Model.UnitMilli * d.Multiplier() * int64(max(1, d.Choices))
}

// keyName names the caller's key in messages.
func (d *Demand) keyName() string {
	if k := d.Caller.Account.Key(d.Caller.KeyID); k != nil && k.Name != "" {
		return k.Name
	}
	return d.Caller.KeyID
}

// notAllowed returns the 403 for a model that the key may not call.
func (d *Demand) notAllowed() error {
	return fault.New(fault.Forbidden, "The key %q may not call the model %q; its models are %s. Use one of them, or another key.",
		d.keyName(), d.Model.ID, strings.Join(d.Caller.Limits.Models, ", ")).At("model")
}

// unitsUsedUp returns the 429 for a key that has no units left for the call this month. A retry does not help before
// the month is over, so it is final.
func unitsUsedUp(d *Demand, limit account.Limit, used, units int64) error {
	var f *fault.Fault
	if units > int64(limit)*1000 {
		f = fault.New(fault.RateLimited, "This call costs %s units and the key %q may use %d a month, so it can never pass. Use another key, or raise the limit of this one.", milli(units), d.keyName(), int64(limit))
	} else {
		f = fault.New(fault.RateLimited, "The key %q may use %d units a month; %s are used and this call costs %s. It gets new ones with the next month (UTC). Use another key, or raise the limit of this one.", d.keyName(), int64(limit), milli(used), milli(units))
	}
	f.Final = true
	return f
}

// keyFault is fault for a limit of a key.
func (o *Obstacle) keyFault(d *Demand, c Cost) error {
	limit, name := int64(o.Limit), d.keyName()
	switch {
	case o.NoShare:
		return noShare()
	case o.Divided && !o.Never:
		f := o.shareFault(c)
		f.Message = fmt.Sprintf("The key %q has limits of its own. %s", name, f.Message)
		return f
	case o.Resource == Requests && o.Never:
		f := fault.New(fault.RateLimited, "This call counts as %s requests and the key %q may make %d a minute, so it can never pass. Use another key or model, or raise the limit of this key.", milli(c.RequestMilli), name, limit)
		f.Final = true
		return f
	case o.Resource == Requests:
		return fault.New(fault.RateLimited, "The key %q may make %d requests a minute; %s are used and this call counts as %s. It would pass in %s.", name, limit, milli(o.Used), milli(c.RequestMilli), seconds(o.Wait)).After(o.Wait)
	default:
		// A node whose part of the limit is 0 says never; another one can take the call.
		wait := max(o.Wait, time.Millisecond)
		return fault.New(fault.RateLimited, "The key %q may use %d tokens a minute; %d are used and this call reserves %d. It would pass in %s.", name, limit, o.Used, c.Tokens, seconds(wait)).After(wait)
	}
}

// tighter returns for each resource the meter with less left: what the caller can still use.
func (s Headroom) tighter(other Headroom) Headroom {
	s.Requests, s.Tokens = s.Requests.tighter(other.Requests), s.Tokens.tighter(other.Tokens)
	return s
}

func (m Meter) tighter(other Meter) Meter {
	if other.Limit != account.Unlimited && (m.Limit == account.Unlimited || other.Remaining < m.Remaining) {
		return other
	}
	return m
}

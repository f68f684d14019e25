package admin

import (
	"context"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/staff"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

// StaffFlag is the argument of account.set-staff.
type StaffFlag struct {
	Actor string `json:"actor"`
	Ref   string `json:"ref"`
	Staff bool   `json:"staff"`
}

// NewToken is the argument of staff.token-create. Ref is the member.
type NewToken struct {
	Actor  string  `json:"actor"`
	Ref    string  `json:"ref"`
	Name   string  `json:"name"`
	Scopes []Scope `json:"scopes"`
	Days   int     `json:"days"`
}

// Token is a staff token without its text.
type Token struct {
	ID         string     `json:"id"`
	AccountID  string     `json:"account_id"`
	Name       string     `json:"name"`
	LastFour   string     `json:"last_four"`
	Scopes     []Scope    `json:"scopes"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  time.Time  `json:"expires_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
}

// CreatedToken is the result of staff.token-create. It is the only time that the token is shown.
type CreatedToken struct {
	Token
	Text string `json:"token"`
}

// accountSetStaff makes the owner of an account a member of staff, or no longer one.
func (b *Backend) accountSetStaff(ctx context.Context, in StaffFlag) (Account, error) {
	return b.viewOf(b.Accounts.SetStaff(ctx, in.Actor, in.Ref, in.Staff))
}

// tokenCreate makes a token. In the console a member can make tokens for themselves only.
func (b *Backend) tokenCreate(ctx context.Context, in NewToken) (CreatedToken, error) {
	in.Ref = ownRef(ctx, in.Ref)
	scopes := make([]string, len(in.Scopes))
	for i, s := range in.Scopes {
		if !s.known() {
			return CreatedToken{}, fault.New(fault.Invalid, "there is no scope %q", excerpt.Of(string(s), 60)).At("scopes")
		}
		scopes[i] = string(s)
	}
	t, raw, err := b.Staff.NewToken(ctx, in.Actor, in.Ref, in.Name, scopes, in.Days)
	if err != nil {
		return CreatedToken{}, err
	}
	return CreatedToken{tokenView(t), raw}, nil
}

// tokenList lists the tokens of a member, or of all if none is named. In the console members see their own.
func (b *Backend) tokenList(ctx context.Context, in AccountPage) (List[Token], error) {
	limit := in.limit()
	list, err := b.Staff.Tokens(ctx, ownRef(ctx, in.Ref), in.After, limit)
	return viewsOf(listOf(list, limit, func(t *staff.Token) string { return t.ID }), tokenView), err
}

// tokenDelete revokes a token. Ref is the id of the token. In the console it must be the member's own.
func (b *Backend) tokenDelete(ctx context.Context, in Target) (Token, error) {
	t, err := b.Staff.DeleteToken(ctx, in.Actor, ownRef(ctx, ""), in.Ref)
	if err != nil {
		return Token{}, err
	}
	return tokenView(t), nil
}

// ownRef returns the account of the member who calls, or ref for an operator at the socket.
func ownRef(ctx context.Context, ref string) string {
	if c := callerOf(ctx); c != nil {
		return c.AccountID
	}
	return ref
}

// mayEnter returns an error if staff wants to change how another member of staff signs in: whoever may do that could
// take the member's place. The operator at the socket may.
func mayEnter(ctx context.Context, a *account.Account) error {
	if a.Staff && callerOf(ctx) != nil {
		return fault.New(fault.Forbidden, "%s is staff; how staff signs in is changed by the operator, on the server's machine", a.Email)
	}
	return nil
}

func tokenView(t *staff.Token) Token {
	v := Token{ID: t.ID, AccountID: t.AccountID, Name: t.Name, LastFour: t.LastFour, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, Scopes: make([]Scope, len(t.Scopes))}
	for i, s := range t.Scopes {
		v.Scopes[i] = Scope(s)
	}
	if !t.LastUsedAt.IsZero() {
		v.LastUsedAt = &t.LastUsedAt
	}
	return v
}

// known reports whether a token can have the scope.
func (s Scope) known() bool {
	return slices.ContainsFunc(Scopes(), func(k ScopeText) bool { return k.Scope == s })
}

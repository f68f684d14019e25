package signin

import (
	"context"

	"sluice/internal/kit/fault"
)

// known reports whether a browser has signed in to an address before. Such a browser has a device
// token, which outlives its sessions; every change to how the owner signs in deletes it. Its
// attempts are counted apart from those of strangers, so that strangers cannot lock the owner out.
func (d *Service) known(ctx context.Context, email string, v Visit) bool {
	l, err := d.Peek(ctx, Device, v.Device)
	return err == nil && l.Email == email
}

// guesses returns the attempts that a guess at the password of an address counts as. The first is
// the one to forget after a right guess. The others stay: somebody who knows one password must not be
// able to reset the count of a place from which they guess others.
func (d *Service) guesses(ctx context.Context, email string, v Visit) []Attempt {
	if d.known(ctx, email, v) {
		return []Attempt{{keyOf("guess in browser", email, v.Device), guessesHere}}
	}
	return append([]Attempt{
		{keyOf("guess from place", email, place(v.Remote)), guessesHere},
		{keyOf("guess", email), guessesAnyhow},
	}, fromHost("try", v, tryAtHost)...)
}

// codeGuesses returns the attempts that a guess at a code counts as. The first is the one to forget
// after a right guess. A code has a million values and three are good at a time, so strangers also have
// a limit by the day.
func (d *Service) codeGuesses(ctx context.Context, accountID, email string, v Visit) []Attempt {
	if d.known(ctx, email, v) {
		return []Attempt{{keyOf("code in browser", accountID, v.Device), codesHere}}
	}
	return []Attempt{{keyOf("code", accountID), codesHere}, {keyOf("codes", accountID), codesADay}}
}

// mayMail counts a mail that a visitor asks for. It returns how many links of one purpose may be
// mailed to the address in an hour, whoever asks; 0 means any number. Beyond that no mail is sent
// and the visitor gets no error. This keeps strangers from filling a mailbox, and takes nothing from the
// owner: the links of that hour are in the mailbox and still good.
func (d *Service) mayMail(ctx context.Context, email string, v Visit) (recent int, err error) {
	if d.known(ctx, email, v) {
		return 0, d.limits.try(ctx, Attempt{keyOf("mail from browser", email, v.Device), mailsHere})
	}
	return mailsAnHour, d.limits.try(ctx, append(fromHost("mail", v, mailsByHost), Attempt{keyOf("mail from place", email, place(v.Remote)), mailsHere})...)
}

// Knock counts a visit to the identity provider, because each visit costs a request to it. It
// returns a fault if there were too many.
func (d *Service) Knock(ctx context.Context, v Visit) error {
	return d.limits.try(ctx, fromHost("try", v, tryAtHost)...)
}

// holder returns the account of a link, if it still has the address that the link was made for.
// Without this check a link mailed to an old address would open the account after the address was
// changed.
func (d *Service) holder(ctx context.Context, l *Link) (*person, error) {
	p, err := d.person(ctx, l.AccountID)
	if fault.Is(err, fault.NotFound) || err == nil && p.Email != l.Email {
		return nil, fault.New(fault.NotFound, "This link was made for an address that the account no longer has. Ask for a new one.")
	}
	return p, err
}

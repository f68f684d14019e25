package signin

import (
	"context"

	"sluice/internal/fault"
)

// known reports whether a browser has signed in to an address before. Such a browser holds a token of its own,
// which outlives its sessions; changes to the way in forget it. Its attempts are counted by themselves.
func (d *Desk) known(ctx context.Context, email string, v Visit) bool {
	l, err := d.Peek(ctx, Device, v.Device)
	return err == nil && l.Email == email
}

// guesses are the attempts that a guess at an address's password counts as. The first is the one to forget when
// it was right.
func (d *Desk) guesses(ctx context.Context, email string, v Visit) []attempt {
	if d.known(ctx, email, v) {
		return []attempt{{keyOf("guess in browser", email, v.Device), guessesHere}}
	}
	return append([]attempt{
		{keyOf("guess from place", email, place(v.Remote)), guessesHere},
		{keyOf("guess", email), guessesAnyhow},
	}, fromHost("try", v, tryAtHost)...)
}

// codeGuesses are the attempts that a code counts as.
func (d *Desk) codeGuesses(ctx context.Context, accountID, email string, v Visit) []attempt {
	if d.known(ctx, email, v) {
		return []attempt{{keyOf("code in browser", accountID, v.Device), codesHere}}
	}
	return []attempt{{keyOf("code", accountID), codesHere}, {keyOf("codes", accountID), codesADay}}
}

// mayMail counts a mail that a visitor has sent to an address. It returns how many links of one kind to
// that address an hour may have, whoever asks; 0: any number. Beyond them no mail is sent, and nobody is
// told: the links of that hour are in the mailbox and still good. So strangers who use them up keep nothing
// from the owner, and fill no mailbox.
func (d *Desk) mayMail(ctx context.Context, email string, v Visit) (recent int, err error) {
	if d.known(ctx, email, v) {
		return 0, d.limits.try(attempt{keyOf("mail from browser", email, v.Device), mailsHere})
	}
	return mailsAnHour, d.limits.try(append(fromHost("mail", v, mailsByHost), attempt{keyOf("mail from place", email, place(v.Remote)), mailsHere})...)
}

// Knock counts a visit to the identity provider, which costs a request to it.
func (d *Desk) Knock(v Visit) error { return d.limits.try(fromHost("try", v, tryAtHost)...) }

// holder is the account of a link, if it still has the address that the link was made for.
func (d *Desk) holder(ctx context.Context, l *Link) (*person, error) {
	acct, err := d.accounts.Find(ctx, l.AccountID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if err != nil || acct.Email != l.Email {
		return nil, fault.New(fault.NotFound, "This link was made for an address that the account no longer has. Ask for a new one.")
	}
	login, err := d.loginStore.FindLogin(ctx, acct.ID)
	return &person{acct, login}, err
}

package sqlstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"sluice/internal/kit/datadir"
	"sluice/internal/kit/seal"
)

// dataKey is the name of the data key in the table secrets. Everything that a reader of the
// database could use directly (the secrets of second factors, the key that signs links) is sealed
// under the data key. The data key itself is random, and is stored sealed under the operator's
// secret. So replacing the operator's secret changes one row only, and a wrong secret is noticed
// before anything is read or written.
const dataKey = "data key"

// sealedMark is the prefix of sealed values. It tells them from values that an older version stored
// in the clear. A second factor's secret never begins with it, since those are base32; a random
// 32-byte key does with a probability of 2^-56.
const sealedMark = "sealed:"

// sealAtOnce is the number of logins that are sealed in one transaction.
const sealAtOnce = 200

// ErrWrongSecret means that the database was sealed under a different secret.
var ErrWrongSecret = errors.New("the database was sealed under another secret")

// rootBox returns the box that the data key is sealed in.
func rootBox(secret string) seal.Box { return seal.New(dataKey, "", secret) }

// Sealed returns the sealed data key, or nil if there is none yet.
func (s *Store) Sealed(ctx context.Context) ([]byte, error) {
	return Optional[[]byte](s.Read(ctx), `SELECT value FROM secrets WHERE name = $1`, dataKey)
}

// Opens reports whether a secret opens a sealed data key.
func Opens(sealed []byte, secret string) bool {
	_, err := rootBox(secret).Open(sealed)
	return err == nil
}

// Unlock opens the data key with the first of the secrets that fits, or creates it in a new
// database. Then it seals what an older version stored in the clear. If the secret that fits is not
// the first one, the data key is sealed again under the first: this is how a secret is replaced.
// Before Unlock, a Store neither opens nor seals anything.
//
// Unlock must be called before the Store is shared between goroutines.
func (s *Store) Unlock(ctx context.Context, secrets ...string) error {
	sealed, err := s.Sealed(ctx)
	if err != nil {
		return err
	}
	if sealed == nil && len(secrets) > 0 {
		// Another node may be faster; then keepSecret returns that node's key.
		if sealed, err = s.keepSecret(ctx, dataKey, rootBox(secrets[0]).Seal(seal.NewKey().Bytes())); err != nil {
			return err
		}
	}
	for i, secret := range secrets {
		raw, err := rootBox(secret).Open(sealed)
		if err != nil {
			continue
		}
		// Set the key before sealClear, which needs it.
		if err := s.setKey(raw); err != nil {
			return err
		}
		if i > 0 {
			if err := s.replaceSecret(ctx, dataKey, sealed, rootBox(secrets[0]).Seal(raw)); err != nil {
				return err
			}
		}
		return s.sealClear(ctx)
	}
	// None of the secrets opens it, or none was given.
	return ErrWrongSecret
}

// setKey takes over the data key.
func (s *Store) setKey(raw []byte) (err error) {
	if s.key, err = seal.KeyOf(raw); err != nil {
		return fmt.Errorf("read the data key: %w", err)
	}
	return nil
}

// UnlockIn unlocks the database of a data folder: with the configured secret, or else with the key file. A new
// database gets a key file if no secret is configured. A sealed one does not, because a new secret could not open it.
func (s *Store) UnlockIn(ctx context.Context, dir *datadir.Dir, configured string) error {
	sealed, err := s.Sealed(ctx)
	if err != nil {
		return err
	}
	secrets, err := datadir.ReadSecrets(dir.Path(), configured)
	if err != nil {
		return err
	}
	if len(secrets.All()) == 0 && sealed == nil {
		if secrets.File, err = dir.CreateSecret(); err != nil {
			return err
		}
	}
	if len(secrets.All()) == 0 {
		return fmt.Errorf("the database is sealed under a secret, and there is none: SLUICE_SECRET is not set, and %s does not exist; %s", dir.Join(datadir.SecretFile), datadir.SecretAdvice)
	}
	if err := s.Unlock(ctx, secrets.All()...); errors.Is(err, ErrWrongSecret) {
		return fmt.Errorf("%w than %s; all nodes on one database need the same; %s", err, secrets.Source(), datadir.SecretAdvice)
	} else if err != nil {
		return fmt.Errorf("unlock the database: %w", err)
	}
	return nil
}

// Key returns the data key. It is zero before Unlock.
func (s *Store) Key() seal.Key { return s.key }

// Secret returns the secret with the given name. If there is none, it stores fresh under that name.
func (s *Store) Secret(ctx context.Context, name string, fresh []byte) ([]byte, error) {
	value, err := s.keepSecret(ctx, name, s.Seal("secret", name, fresh))
	if err != nil {
		return nil, err
	}
	return s.Unseal("secret", name, value)
}

// ForgetSealed deletes everything that is sealed, for the case that the operator's secret is lost.
// Accounts with a second factor lose it, signed links stop working, webhooks are stopped, and stored responses and shared conversations are gone. It returns the number of
// these accounts.
func (s *Store) ForgetSealed(ctx context.Context) (accounts int, err error) {
	return InTx(ctx, s, func(tx *Conn) (int, error) {
		for _, statement := range []string{
			`DELETE FROM secrets`,
			`UPDATE alert_endpoints SET secret = '', stopped_at = created_at, stopped_why = 'its secret was lost; delete it and create another' WHERE kind = 'webhook'`,
			`DELETE FROM responses`, `DELETE FROM response_sizes`, `DELETE FROM shares`, `DELETE FROM share_sizes`,
			`UPDATE receipt_keys SET private = ''`,
		} {
			tx.Do(statement)
		}
		n, err := tx.Changed(`UPDATE logins SET totp_secret = '', totp_on = 0 WHERE totp_secret LIKE 'sealed:%'`)
		return int(n), err
	})
}

// keepSecret stores a value unless there is one already, and returns the stored value. The update
// of a value to itself makes the statement return the existing row.
func (s *Store) keepSecret(ctx context.Context, name string, fresh []byte) ([]byte, error) {
	return Value[[]byte](s.Write(ctx), `INSERT INTO secrets (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = secrets.value RETURNING value`, name, fresh)
}

// replaceSecret replaces a value unless another node has replaced it already.
func (s *Store) replaceSecret(ctx context.Context, name string, old, value []byte) error {
	return s.Exec(ctx, `UPDATE secrets SET value = $3 WHERE name = $1 AND value = $2`, name, old, value)
}

// Seal returns a value in the form in which it is stored. What the value belongs to is part of the
// key derivation, so a value that is copied to another account cannot be opened there.
func (s *Store) Seal(purpose, scope string, plain []byte) []byte {
	if s.key.IsZero() {
		return plain
	}
	return append([]byte(sealedMark), s.key.Box(purpose, scope, "").Seal(plain)...)
}

// Unseal is the inverse of Seal. A value without the prefix is returned as it is.
func (s *Store) Unseal(purpose, scope string, value []byte) ([]byte, error) {
	sealed, ok := bytes.CutPrefix(value, []byte(sealedMark))
	if !ok {
		return value, nil
	}
	plain, err := s.key.Box(purpose, scope, "").Open(sealed)
	if err != nil {
		return nil, fmt.Errorf("open the %s of %s: %w", purpose, scope, err)
	}
	return plain, nil
}

// SealText is Seal for a text column. The empty string means that there is no value and stays
// empty.
func (s *Store) SealText(purpose, scope, plain string) string {
	if plain == "" || s.key.IsZero() {
		return plain
	}
	return sealedMark + base64.RawStdEncoding.EncodeToString(s.key.Box(purpose, scope, "").Seal([]byte(plain)))
}

// UnsealText is the inverse of SealText.
func (s *Store) UnsealText(purpose, scope, value string) (string, error) {
	text, ok := strings.CutPrefix(value, sealedMark)
	if !ok {
		return value, nil
	}
	sealed, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("open the %s of %s: %w", purpose, scope, seal.ErrUnreadable)
	}
	plain, err := s.key.Box(purpose, scope, "").Open(sealed)
	if err != nil {
		return "", fmt.Errorf("open the %s of %s: %w", purpose, scope, err)
	}
	return string(plain), nil
}

// sealClear seals what an older version stored in the clear. It can be interrupted at any point and
// repeated, because every value is either clear or sealed.
func (s *Store) sealClear(ctx context.Context) error {
	sealed := 0
	for {
		n, err := s.sealSome(ctx)
		if err != nil {
			return fmt.Errorf("seal what is stored in the clear: %w", err)
		}
		sealed += n
		// A full batch means that there may be more.
		if n < sealAtOnce {
			break
		}
	}
	if sealed == 0 || s.engine != SQLite {
		return nil
	}
	// So far, the old values are only overwritten in the write-ahead log; see sealSome. A
	// checkpoint writes the new pages to the file and empties the log.
	return s.Write(ctx).Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
}

// clearValue is a value stored in the clear, and the account or name that it belongs to.
type clearValue struct{ of, value string }

// sealSome seals up to sealAtOnce logins and all other secrets, and returns how many it found in
// the clear.
func (s *Store) sealSome(ctx context.Context) (n int, err error) {
	if s.engine == SQLite {
		// By default SQLite leaves replaced data in the unused part of a page. secure_delete
		// overwrites it. The setting belongs to the connection, and there is only one that writes.
		if err := s.Write(ctx).Exec(`PRAGMA secure_delete = ON`); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, s.Write(ctx).Exec(`PRAGMA secure_delete = OFF`)) }()
	}
	err = s.Tx(ctx, func(tx *Conn) error {
		clear, err := clearValues(tx, `SELECT account_id, totp_secret FROM logins WHERE totp_secret <> '' AND totp_secret NOT LIKE 'sealed:%' LIMIT $1`, sealAtOnce)
		if err != nil {
			return err
		}
		for _, c := range clear {
			// The condition on the old value protects a change that another node makes at the same
			// time.
			tx.Do(`UPDATE logins SET totp_secret = $3 WHERE account_id = $1 AND totp_secret = $2`, c.of, c.value, s.SealText("second factor", c.of, c.value))
		}
		n = len(clear)
		// There are few of these, so read all of them.
		secrets, err := clearValues(tx, `SELECT name, value FROM secrets WHERE name <> $1`, dataKey)
		if err != nil {
			return err
		}
		for _, c := range secrets {
			if strings.HasPrefix(c.value, sealedMark) {
				continue
			}
			n++
			tx.Do(`UPDATE secrets SET value = $3 WHERE name = $1 AND value = $2`, c.of, []byte(c.value), s.Seal("secret", c.of, []byte(c.value)))
		}
		return nil
	})
	return n, err
}

// clearValues returns the rows of a query that selects a name and a value.
func clearValues(tx *Conn, query string, arg any) ([]clearValue, error) {
	return All(tx, func(row Row, c *clearValue) error { return row.Scan(&c.of, &c.value) }, query, arg)
}

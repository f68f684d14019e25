package app

import (
	"context"
	"errors"
	"fmt"

	"sluice/internal/config"
	"sluice/internal/datadir"
	"sluice/internal/sqlstore"
)

// The ways out of a missing secret. Each message that says so ends with this.
const secretAdvice = "put the secret.key that belongs to this database into the data folder, or set SLUICE_SECRET to what it holds; " +
	"if it is lost, \"sluice reset-secret\" gives up what is sealed and starts with a new one"

// unlock opens what is sealed in the database: with the configured secret, else with the key file. A new
// database gets a key file where no secret is configured; one that is sealed does not, because another
// secret could not open it.
func unlock(ctx context.Context, cfg *config.Config, dir *datadir.Dir, store *sqlstore.Store) error {
	sealed, err := store.Sealed(ctx)
	if err != nil {
		return err
	}
	file, err := datadir.Secret(dir.Path())
	if err != nil {
		return err
	}
	secrets := usableSecrets(cfg, file)
	if len(secrets) == 0 && sealed == nil {
		if file, err = dir.CreateSecret(); err != nil {
			return err
		}
		secrets = []string{file}
	}
	if len(secrets) == 0 {
		return fmt.Errorf("the database is sealed under a secret, and there is none: SLUICE_SECRET is not set, and %s does not exist; %s", dir.Join(datadir.SecretFile), secretAdvice)
	}
	if err := store.Unlock(ctx, secrets...); errors.Is(err, sqlstore.ErrWrongSecret) {
		return fmt.Errorf("%w than %s; all nodes on one database need the same; %s", err, secretSource(cfg, dir.Path()), secretAdvice)
	} else if err != nil {
		return fmt.Errorf("unlock the database: %w", err)
	}
	return nil
}

// usableSecrets are the secrets to try, the one in force first. A key file beside a configured secret is the
// one that it replaces.
func usableSecrets(cfg *config.Config, file string) []string {
	var secrets []string
	for _, s := range []string{cfg.Secret.Reveal(), file} {
		if s != "" {
			secrets = append(secrets, s)
		}
	}
	return secrets
}

func secretSource(cfg *config.Config, dir string) string {
	if cfg.Secret != "" {
		return "the one in SLUICE_SECRET (or the field secret)"
	}
	return "the one in " + dir + "/" + datadir.SecretFile
}

// ResetSecret gives up what is sealed under a lost secret, and returns how many accounts lost their second
// factor. The next start makes a new secret, or uses the one that is configured.
func ResetSecret(ctx context.Context, cfg *config.Config) (accounts int, err error) {
	dir, err := datadir.Open(cfg.Data)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	store, err := sqlstore.Open(ctx, cfg.Database, dir.Path())
	if err != nil {
		return 0, err
	}
	defer store.Close()
	return store.ForgetSealed(ctx)
}

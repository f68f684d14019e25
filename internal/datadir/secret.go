package datadir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SecretFile is the name of the key file: the secret that what is sealed in the database is sealed under.
// It is text, so that its content can also be given in the environment.
const SecretFile = "secret.key"

const (
	secretBytes   = 32
	maxSecretFile = 4 << 10
	// MinSecret is the length below which a secret could be guessed.
	MinSecret = 32
)

// Secret returns what the key file of a folder holds; empty: there is none.
func Secret(dir string) (string, error) {
	name := filepath.Join(dir, SecretFile)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read the key file: %w", err)
	}
	if isExposed(info) {
		return "", exposed(name, info)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return "", fmt.Errorf("read the key file: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	if len(text) < MinSecret {
		return "", fmt.Errorf("the key file %s is damaged: it has %d characters and needs %d; put a copy of it there", name, len(text), MinSecret)
	}
	return text, nil
}

// SecretAdvice says what to do about a missing secret. Messages that report one end with it.
const SecretAdvice = "put the secret.key that belongs to this database into the data folder, or set SLUICE_SECRET to what it holds; " +
	"if it is lost, \"sluice reset-secret\" gives up what is sealed and starts with a new one"

// Secrets are the secrets that can open the database of a folder.
type Secrets struct {
	Configured string // SLUICE_SECRET or the field secret; empty if it is not set
	File       string // the content of the key file; empty if there is none
	folder     string
}

// ReadSecrets returns the configured secret beside that of the key file in the folder at path.
func ReadSecrets(path, configured string) (Secrets, error) {
	file, err := Secret(path)
	return Secrets{Configured: configured, File: file, folder: path}, err
}

// All returns the secrets to try, the one in force first. A key file beside a configured secret holds the secret
// that the configured one replaces.
func (s Secrets) All() []string {
	var all []string
	for _, secret := range []string{s.Configured, s.File} {
		if secret != "" {
			all = append(all, secret)
		}
	}
	return all
}

// Source says where the secret in force comes from.
func (s Secrets) Source() string {
	if s.Configured != "" {
		return "the one in SLUICE_SECRET (or the field secret)"
	}
	return "the one in " + s.folder + "/" + SecretFile
}

// CreateSecret makes a key file, which must not exist, and returns what it holds. It is on the disk when
// CreateSecret returns: nothing may be sealed under a secret that a power cut can take away.
func (d *Dir) CreateSecret() (string, error) {
	var b [secretBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	text := hex.EncodeToString(b[:])
	aside, name := d.Join(SecretFile+".new"), d.Join(SecretFile)
	if err := writeSynced(aside, text+"\n"); err != nil {
		return "", fmt.Errorf("write the key file: %w", err)
	}
	// The folder's lock keeps others from making one between the check and the rename.
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(fmt.Errorf("write the key file: %s exists already", name), os.Remove(aside))
	}
	if err := os.Rename(aside, name); err != nil {
		return "", fmt.Errorf("write the key file: %w", err)
	}
	return text, syncFolder(d.path)
}

func writeSynced(name, text string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder brings the names in a folder to the disk, where the system can.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_ = f.Sync() // some file systems refuse it; then their names are as safe as they get
	return f.Close()
}

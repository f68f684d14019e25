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

// SecretFile is the name of the key file. It holds the secret that protects the sealed data in the
// database. The file is text, so that its content can also be passed in an environment variable.
const SecretFile = "secret.key"

const (
	// secretBytes is the number of random bytes in a new secret. The file holds them in hex.
	secretBytes = 32
	// maxSecretFile bounds how much of the key file is read.
	maxSecretFile = 4 << 10
	// MinSecret is the minimum length of a secret in characters. Shorter ones could be guessed.
	MinSecret = 32
)

// Secret returns the contents of the key file in dir, without surrounding white space. It returns
// an empty string if there is no key file.
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
	// Check the file that is open, not its name: another file cannot take its place in between.
	if isExposed(info) {
		return "", exposed(name, info)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return "", fmt.Errorf("read the key file: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	if len(text) < MinSecret {
		return "", fmt.Errorf("the key file %s is damaged: it has %d characters and needs %d; restore it from a copy", name, len(text), MinSecret)
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

// CreateSecret creates the key file, which must not exist yet, and returns its contents. The file
// is on disk when CreateSecret returns. Otherwise a power failure could lose a secret that data has
// already been sealed under, and that data could never be read again.
func (d *Dir) CreateSecret() (string, error) {
	var b [secretBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	text := hex.EncodeToString(b[:])
	// Write under a temporary name and rename, so that a half-written key file never has the real
	// name.
	aside, name := d.Join(SecretFile+".new"), d.Join(SecretFile)
	if err := writeSynced(aside, text+"\n"); err != nil {
		return "", fmt.Errorf("write the key file: %w", err)
	}
	// The lock on the folder keeps other processes from creating the file between this check and
	// the rename, which would replace it silently.
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(fmt.Errorf("write the key file: %s exists already", name), os.Remove(aside))
	}
	if err := os.Rename(aside, name); err != nil {
		return "", fmt.Errorf("write the key file: %w", err)
	}
	return text, syncFolder(d.path)
}

// writeSynced writes text to a private file and flushes it to disk.
func writeSynced(name, text string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder flushes the directory entries of path to disk where the file system supports that.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_ = f.Sync() // some file systems do not support it; there is no stronger guarantee to get
	return f.Close()
}

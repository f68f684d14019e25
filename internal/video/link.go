package video

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/video/blob"
)

// LinkPath and LinkSuffix surround the id of the generation in the path of a link.
const (
	LinkPath   = "/files/"
	LinkSuffix = ".mp4"
)

// SecretStore keeps the secret that links are signed with, so that every node has the same.
type SecretStore interface {
	// Secret returns the secret of a name. If there is none, it stores fresh and returns that.
	Secret(ctx context.Context, name string, fresh []byte) ([]byte, error)
}

// Link returns the URL under which the video of a finished job can be downloaded without a key
// until it expires.
func (l *Line) Link(j *Job) string {
	expires := strconv.FormatInt(j.ExpiresAt.Unix(), 10)
	return l.settings.Load().Origin + LinkPath + j.Generation + LinkSuffix + "?expires=" + expires + "&signature=" + l.sign(j.Generation, expires)
}

// sign returns the signature of a link, an HMAC over generation and expiry. Every node has the same
// secret.
func (l *Line) sign(generation, expires string) string {
	mac := hmac.New(sha256.New, l.secret)
	mac.Write([]byte(generation + "\n" + expires)) // the line break keeps the two parts apart
	return hex.EncodeToString(mac.Sum(nil))
}

// OpenLink opens the video of a link. The link must be complete, unaltered and not expired. The
// caller closes the file.
func (l *Line) OpenLink(ctx context.Context, generation, expires, signature string) (*Job, io.ReadSeekCloser, error) {
	// Check the signature before anything else, in constant time.
	if !hmac.Equal([]byte(signature), []byte(l.sign(generation, expires))) {
		return nil, nil, fault.New(fault.Forbidden, "This link is not valid: it is incomplete or was altered. Get a new one from the video's job.")
	}
	until, err := strconv.ParseInt(expires, 10, 64)
	if err != nil {
		return nil, nil, err // cannot happen: we signed it
	}
	// The signature covers the expiry, so nobody can extend a link.
	if time.Now().Unix() >= until {
		return nil, nil, fault.New(fault.Forbidden, "This link has expired, and with it the video.")
	}
	return l.openFile(ctx, generation, "")
}

// Open opens a video of the account. The caller closes the file.
func (l *Line) Open(ctx context.Context, accountID, generation string) (*Job, io.ReadSeekCloser, error) {
	return l.openFile(ctx, generation, accountID)
}

// OpenJob opens the video of a job of the account. The caller closes the file.
func (l *Line) OpenJob(ctx context.Context, accountID, id string) (*Job, io.ReadSeekCloser, error) {
	j, err := l.Find(ctx, accountID, id)
	if err != nil {
		return nil, nil, err
	}
	if j.Status == Failed || j.Status == Cancelled {
		return nil, nil, fault.New(fault.NotFound, "Job %q has no video: it has %s.", id, map[Status]string{Failed: "failed", Cancelled: "been cancelled"}[j.Status])
	}
	if j.Status != Succeeded {
		return nil, nil, fault.New(fault.NotFound, "The video of %q is not ready yet. Poll the job until it is.", id)
	}
	return l.open(ctx, j)
}

// openFile opens a video. If accountID is not empty, the video must belong to that account.
func (l *Line) openFile(ctx context.Context, generation, accountID string) (*Job, io.ReadSeekCloser, error) {
	j, err := l.lookUp(ctx, generation)
	if err != nil {
		return nil, nil, err
	}
	if j == nil || generation == "" || j.Generation != generation || !l.visible(j, j.AccountID) || accountID != "" && accountID != j.AccountID {
		return nil, nil, fault.New(fault.NotFound, "There is no video %q. It may have expired.", excerpt.Of(generation, maxEcho))
	}
	return l.open(ctx, j)
}

// open opens the file of a job that has succeeded.
func (l *Line) open(ctx context.Context, j *Job) (*Job, io.ReadSeekCloser, error) {
	if err := l.whole(j); err != nil {
		return nil, nil, err
	}
	f, err := l.files.Open(ctx, j.File())
	// The job says that there is a file, so the storage is at fault, not the caller.
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil, fault.New(fault.Unavailable, "The file of this video cannot be reached at the moment. Try again shortly.").Because(err)
	}
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, "The storage of videos does not answer at the moment. Try again shortly.").After(5 * time.Second).Because(err)
	}
	return j, l.verify(j, f), nil
}

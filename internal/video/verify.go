package video

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"sluice/internal/kit/fault"
)

// mostDamaged bounds the list of files that are known to be damaged.
const mostDamaged = 1000

// errDamaged ends the download of a file that is not what was stored.
var errDamaged = errors.New("the file is not what was stored")

// verified is the file of a video on its way to a caller. Bytes that are read from the beginning to the end are hashed
// while they pass, which costs no second read. If the hash is not the one that was stored with the job, the last piece is
// withheld: the caller gets less than the length says, and no client takes that for the whole file. A part of a file
// cannot be checked.
type verified struct {
	io.ReadSeekCloser
	line   *Line
	job    *Job
	sum    hash.Hash
	at     int64 // where the next byte is read
	hashed int64 // how many bytes, from the first, are in sum
}

// verify returns the file of a job with the check of its hash around it.
func (l *Line) verify(j *Job, f io.ReadSeekCloser) *verified {
	return &verified{ReadSeekCloser: f, line: l, job: j, sum: sha256.New()}
}

// Read implements io.Reader.
func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadSeekCloser.Read(p)
	if v.at == v.hashed && n > 0 {
		v.sum.Write(p[:n]) // never fails
		if v.hashed += int64(n); v.hashed == v.job.Size && hex.EncodeToString(v.sum.Sum(nil)) != v.job.SHA256 {
			return 0, v.line.damaged(v.job)
		}
	}
	v.at += int64(n)
	return n, err
}

// Seek implements io.Seeker. Seeking to the end is how the length is asked for.
func (v *verified) Seek(offset int64, whence int) (int64, error) {
	n, err := v.ReadSeekCloser.Seek(offset, whence)
	if err != nil {
		return n, err
	}
	if v.at = n; whence == io.SeekEnd && offset == 0 && n != v.job.Size {
		return n, v.line.damaged(v.job)
	}
	return n, nil
}

// damaged remembers that the file of a job is damaged, and returns the error that says so.
func (l *Line) damaged(j *Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.broken[j.Generation] && len(l.broken) < mostDamaged {
		l.broken[j.Generation] = true
		l.log.Error("the file of a video is damaged and is not sent", "job", j.ID, "file", j.File(), "size", j.Size, "sha256", j.SHA256)
	}
	return errDamaged
}

// whole returns a fault if the file of a job is known to be damaged.
func (l *Line) whole(j *Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.broken[j.Generation] {
		return nil
	}
	f := fault.New(fault.Unavailable, "The file of this video is damaged and is not sent. Create the video again.").Because(errDamaged)
	f.Final = true
	return f
}

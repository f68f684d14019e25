package installation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/videos"
	"sluice/internal/video"
	"sluice/internal/video/blob"
)

const (
	// filePatience is how long copying one video may take.
	filePatience = 15 * time.Minute
	// filesPatience is how long a storage of videos may take to answer at first.
	filesPatience = 5 * time.Second
	// videosAtOnce is how many jobs are read from the database at a time.
	videosAtOnce = 500
)

// source is where files are read from.
type source interface {
	Open(ctx context.Context, name string) (io.ReadSeekCloser, error)
}

// target is where files are written to.
type target interface {
	source
	Put(ctx context.Context, name string, fill func(io.Writer) error) (blob.Info, error)
}

// Files is a storage of files: a folder or an object store.
type Files interface {
	target
	// Check reports, with a nil error, that the storage can be reached.
	Check(ctx context.Context) error
}

// MovedFiles is what became of the video files.
// It adds up what happened to each file; a file that is missing or damaged does not end the run.
type MovedFiles struct {
	Copied int   `json:"copied"` // by this run
	Bytes  int64 `json:"bytes"`
	There  int   `json:"already_there"`
	// Missing are the ids of videos whose file is not in the source's storage; at most ten are named.
	Missing      []string `json:"missing,omitempty"`
	MissingCount int      `json:"missing_count"`
	// Damaged are those whose file does not have the checksum that the job says. They are copied as they are.
	Damaged []string `json:"damaged,omitempty"`
}

// mostNamed bounds the lists in MovedFiles.
const mostNamed = 10

// moveFiles copies the files of all finished videos that are not at their new place yet.
func (m *Move) moveFiles(ctx context.Context, store *sqlstore.Store) (*MovedFiles, error) {
	// An object store's spool belongs to one process alone, and the server may be running.
	// The data folder is the one place that this process can write to, also in a container.
	spool, err := os.MkdirTemp(m.From, "spool-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(spool)
	from, to, err := m.Files(spool)
	if err != nil {
		return nil, err
	}
	checking, cancel := context.WithTimeout(ctx, filesPatience)
	defer cancel()
	for _, f := range []Files{from, to} {
		if err := f.Check(checking); err != nil {
			return nil, fmt.Errorf("the storage of videos cannot be used: %w; check --storage and the section blob of the configuration", err)
		}
	}
	all, _, err := countVideos(ctx, store)
	if err != nil {
		return nil, err
	}
	out := &MovedFiles{}
	return out, out.all(ctx, store, from, to, all, m.Report)
}

// add copies the file of one video, unless it is there.
func (f *MovedFiles) add(ctx context.Context, from source, to target, j *video.Job) error {
	ctx, cancel := context.WithTimeout(ctx, filePatience)
	defer cancel()
	if isThere(ctx, to, j) {
		f.There++
		return nil
	}
	in, err := from.Open(ctx, j.File())
	if errors.Is(err, blob.ErrNotExist) {
		f.missing(j)
		return nil
	}
	if err != nil {
		return fmt.Errorf("the file of video %s: %w; run the same command again to continue", j.ID, err)
	}
	defer in.Close()
	info, err := to.Put(ctx, j.File(), func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
	if err != nil {
		return fmt.Errorf("the file of video %s: %w; run the same command again to continue", j.ID, err)
	}
	if (info.SHA256 != j.SHA256 || info.Size != j.Size) && len(f.Damaged) < mostNamed {
		f.Damaged = append(f.Damaged, j.ID)
	}
	f.Copied++
	f.Bytes += info.Size
	return nil
}

// isThere reports whether the whole file is at its new place. A file appears there as a whole or not at all, so its
// size is enough.
func isThere(ctx context.Context, to source, j *video.Job) bool {
	f, err := to.Open(ctx, j.File())
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	return err == nil && size == j.Size
}

// countVideos returns how many finished videos there are, and their size.
func countVideos(ctx context.Context, store *sqlstore.Store) (n int, bytes int64, err error) {
	err = eachVideo(ctx, store, func(j *video.Job) error {
		n++
		bytes += j.Size
		return nil
	})
	return n, bytes, err
}

// eachVideo calls work for every job that has a file.
// It reads page by page, in the order of the ids, so a job that is finished meanwhile is found or
// not, and none is seen twice.
func eachVideo(ctx context.Context, store *sqlstore.Store, work func(*video.Job) error) error {
	after := ""
	for {
		jobs, err := videos.New(store).FinishedVideos(ctx, after, videosAtOnce)
		if err != nil || len(jobs) == 0 {
			return err
		}
		for i := range jobs {
			if err := work(&jobs[i]); err != nil {
				return err
			}
		}
		after = jobs[len(jobs)-1].ID
	}
}

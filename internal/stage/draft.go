package stage

import (
	"path"

	"initbox/internal/dirfd"
)

// Draft is a long content on its way to a file: what is written to it waits on the disk, where [Stage.PutDraft] needs
// no copy of it. It is for one goroutine.
type Draft struct {
	*steady
	area *area
	name string
}

// Draft returns an empty draft of the file called name, or nil if its content cannot wait beside it: in a dry run, and
// where the file would be written in place.
func (s *Stage) Draft(name string) (*Draft, error) {
	if err := CheckName(name); err != nil || s.options.DryRun {
		return nil, nil // PutFrom returns the error
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, nil
	}
	f, err := s.directory(path.Dir(name))
	if err != nil || f.area == "" || f.denied != nil {
		return nil, nil
	}
	a, err := s.area(f.area)
	if err != nil {
		return nil, err
	}
	staged, file, err := a.create()
	return &Draft{file, a, staged}, err
}

// Content returns what was written.
func (d *Draft) Content() Content { return d.area.content(d.name) }

// Discard removes the draft. PutDraft must not have been called.
func (d *Draft) Discard() {
	d.file.Close()
	dirfd.Remove(d.area.dir, d.name)
}

// PutDraft is [Stage.PutFrom] for the content of a draft of the same name, which it takes over.
func (s *Stage) PutDraft(name string, d *Draft, a Attr) (Change, error) {
	change, err := s.note(&change{Change: Change{Name: name}, attr: a, draft: d}, d.Content())
	if err != nil || change.Kind == Unchanged {
		d.Discard()
		return change, err
	}
	return change, d.file.Close()
}

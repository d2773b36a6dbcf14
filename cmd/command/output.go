package command

import (
	"io/fs"

	"github.com/urfave/cli/v2"

	"initbox/internal/atomicfile"
	"initbox/internal/perm"
)

// outputFlags are the owner and the mode of what a subcommand writes, for an application with another UID.
type outputFlags struct {
	owner, mode string
	follow      bool

	// Set by check.
	perm  *perm.Owner // nil without --owner
	modes perm.Mode   // zero without --mode
}

// flags returns --owner, --mode and --follow. usual is the mode of files without --mode.
func (o *outputFlags) flags(category, usual string) []cli.Flag {
	return []cli.Flag{
		textFlag("owner", "`UID[:GID]` of what is written: "+perm.OwnerUsage+"; needs the right to change owners", category, &o.owner),
		textFlag("mode", "`MODE` of files that are written, as in 0640 (default "+usual+")", category, &o.mode),
		followFlag(category, &o.follow),
	}
}

// check reads the flags. It belongs into the check of the command line.
func (o *outputFlags) check() error {
	if o.owner != "" {
		owner, err := perm.ParseOwner(o.owner)
		if err != nil {
			return usagef("--owner: %w", err)
		}
		o.perm = &owner
	}
	if o.mode != "" {
		mode, err := perm.ParseMode(o.mode)
		if err != nil {
			return usagef("--mode: %w", err)
		}
		o.modes = mode
	}
	return nil
}

// of returns the permission bits of a file whose usual ones these are.
func (o *outputFlags) of(usual fs.FileMode) fs.FileMode {
	return fs.FileMode(o.modes.Of(uint32(usual), false)) & fs.ModePerm
}

// uid and gid are -1 without --owner, as in [initbox/internal/stage].
func (o *outputFlags) ids() (uid, gid int) {
	if o.perm == nil {
		return -1, -1
	}
	return o.perm.UID, o.perm.GID
}

// writer writes single files.
func (o *outputFlags) writer() atomicfile.Writer {
	return atomicfile.Writer{Follow: o.follow, Owner: o.perm}
}

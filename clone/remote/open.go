package remote

import (
	"context"
	"fmt"
)

// Open connects to the repository at u, and reads which features its server has.
func Open(ctx context.Context, u *URL, o Options) (Repository, error) {
	switch u.Scheme {
	case "http", "https":
		return openHTTP(ctx, u, o)
	case "git":
		return openCommands(ctx, u, o, &daemon{u, o.dialer()})
	case "ssh":
		return openCommands(ctx, u, o, openSSH(u, o))
	case "file":
		return openDir(u, o)
	}
	return nil, fmt.Errorf("no such scheme: %q", u.Scheme)
}

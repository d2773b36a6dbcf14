package clone

import "context"

// CostlyPause lets tests of retries wait for less time.
var CostlyPause = &costlyPause

// BeforeEnd returns the context of the attempts.
func BeforeEnd(ctx context.Context) (context.Context, context.CancelFunc) { return beforeEnd(ctx) }

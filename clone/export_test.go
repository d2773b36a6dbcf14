package clone

// CostlyPause lets tests of retries wait for less time.
var CostlyPause = &costlyPause

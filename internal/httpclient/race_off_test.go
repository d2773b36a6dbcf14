//go:build !race

package httpclient

const raceDetector = false

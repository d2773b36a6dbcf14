//go:build race

package httpclient

const raceDetector = true

// Package doctor explains why Pods are stuck: who holds each, what that waits for, and what is wrong there.
package doctor

// Package fetch downloads files and archives, checks and unpacks them, and puts the result in place: all of it or
// nothing.
package fetch

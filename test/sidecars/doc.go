// Package sidecars runs all sidecars of initbox beside servers that come and go. Under go test it takes seconds; under
// make soak PARTS=sidecars it goes on for as long as that says, and also requires that memory and open files stay as
// they are.
package sidecars

// Becomes part of the standard library's package os in a function's build (see README.md): lets the runtime know who writes to
// stdout and stderr, and that the process is about to exit.
package os

import "unsafe"

// SlessWrite takes what is written to the process's own stdout (stream 0) and stderr (stream 1); false: it is to be written as it is.
var SlessWrite func(stream int, b []byte) bool

// SlessExit is called by Exit first.
var SlessExit func(code int)

var slessStdout, slessStderr = Stdout, Stderr

// SlessLabels identifies the profiling labels of the running goroutine; goroutines inherit them.
func SlessLabels() unsafe.Pointer { return slessLabels() }

//go:linkname slessLabels runtime/pprof.runtime_getProfLabel
func slessLabels() unsafe.Pointer

func slessTakes(f *File, b []byte) bool {
	switch {
	case SlessWrite == nil:
		return false
	case f == slessStdout:
		return SlessWrite(0, b)
	case f == slessStderr:
		return SlessWrite(1, b)
	}
	return false
}

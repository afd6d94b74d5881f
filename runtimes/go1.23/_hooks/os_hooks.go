// Compiled into the standard library's package os in a function's build (see README.md): notifies the runtime of writes to stdout and
// stderr, and of the process's exit.
package os

import "unsafe"

// SlessWrite receives writes to the process's own stdout (stream 0) and stderr (stream 1); false: write them unchanged.
var SlessWrite func(stream int, b []byte) bool

// Exit calls SlessExit first.
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

package early

import (
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"unsafe"
)

var (
	realStdout = 1
	realStderr = 2
)

// captured holds the read ends of the pipes that replace descriptors 1 and 2.
var captured [2]struct {
	fd     int
	mu     sync.Mutex
	buffer [32 * 1024]byte
}

var capturing bool

// startCapture redirects descriptors 1 and 2 into pipes of this process. They are read before and after each call and whenever data
// arrives, so output can be attributed while a single call runs.
func startCapture() {
	realStdout, realStderr = keptCopyOf(1), keptCopyOf(2)
	debug.SetCrashOutput(os.NewFile(uintptr(keptCopyOf(2)), "stderr"), debug.CrashOptions{})
	for stream := range captured {
		var ends [2]int
		if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
			Refuse("output cannot be captured: " + err.Error())
		}
		if err := syscall.Dup3(ends[1], stream+1, 0); err != nil {
			Refuse("output cannot be captured: " + err.Error())
		}
		syscall.Close(ends[1])
		syscall.SetNonblock(ends[0], true)
		captured[stream].fd = ends[0]
		go serveCaptured(Stream(stream), os.NewFile(uintptr(ends[0]), "captured"))
	}
	capturing = true
	hookWrite(takeWrite)
}

func keptCopyOf(fd int) int {
	copied, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 3)
	if errno != 0 {
		Refuse("descriptor " + itoa(fd) + " cannot be copied: " + errno.Error())
	}
	return int(copied)
}

// serveCaptured reads output as it arrives.
func serveCaptured(stream Stream, file *os.File) {
	connection, err := file.SyscallConn()
	if err != nil {
		return
	}
	connection.Read(func(uintptr) bool {
		return !readCaptured(stream)
	})
}

// readCaptured drains a pipe; false when it is closed.
func readCaptured(stream Stream) bool {
	source := &captured[stream]
	source.mu.Lock()
	defer source.mu.Unlock()
	for {
		// A raw system call: it never blocks, and every call makes it twice.
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(source.fd), uintptr(unsafe.Pointer(&source.buffer)), uintptr(len(source.buffer)))
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			return true
		case errno != 0 || n == 0:
			return false
		default:
			Write(soleScope(), stream, source.buffer[:n])
			if int(n) < len(source.buffer) {
				return true
			}
		}
	}
}

// Drain reads what has been written to the descriptors so far.
func Drain() {
	if capturing {
		readCaptured(Stdout)
		readCaptured(Stderr)
	}
}

// takeWrite captures writes to os.Stdout and os.Stderr in the goroutine that makes them.
func takeWrite(stream int, piece []byte) bool {
	Drain()
	Write(scopeOfGoroutine(), Stream(stream), piece)
	return true
}

// FlushAll logs all captured output, including unfinished lines.
func FlushAll() {
	Drain()
	flushScopes()
}

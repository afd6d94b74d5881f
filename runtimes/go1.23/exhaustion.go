package runtime

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sless.internal/runtime/early"
)

// Both together: calls that only wait for others to close their files recover sooner.
const (
	failedCalls = 10
	failingTime = time.Second
)

// exhaustion ends a process in which calls only fail because it has used up its descriptors, processes or memory. sless replaces it.
// (Without a new thread, Go itself ends the process.)
type exhaustion struct {
	mu     sync.Mutex
	failed atomic.Int32 // calls that failed in this way since the last one that did not
	since  time.Time
	ending bool
}

// note takes the error of an ended call, nil when it succeeded.
func (e *exhaustion) note(err error) {
	if err == nil && e.failed.Load() == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !isExhaustion(err) {
		e.failed.Store(0)
		return
	}
	if e.failed.Load() == 0 {
		e.since = time.Now()
	}
	failed := int(e.failed.Add(1))
	if failed < failedCalls || time.Since(e.since) < failingTime || e.ending {
		return
	}
	e.ending = true
	text := "the last " + strconv.Itoa(failed) + " calls failed with '" + messageOf(err) + "': this instance ends and is replaced\n"
	early.Write(early.ProcessScope, early.Stderr, []byte(text))
	syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
}

func isExhaustion(err error) bool {
	if failure, ok := err.(*panicError); ok {
		err, _ = failure.thrown.(error)
	}
	var number syscall.Errno
	if !errors.As(err, &number) {
		return false
	}
	return number == syscall.EAGAIN || number == syscall.EMFILE || number == syscall.ENFILE || number == syscall.ENOMEM
}

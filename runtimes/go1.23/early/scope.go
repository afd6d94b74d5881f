package early

import (
	"sync"
	"unsafe"
)

// Stream is one of the two outputs.
type Stream int

const (
	Stdout Stream = 0
	Stderr Stream = 1
)

// Calls that have ended and still own what their goroutines write.
const keptOwners = 4096

// Scope is what one call, or the process outside of calls, has written so far. All fields but ID belong to the lock `output`.
type Scope struct {
	ID        string
	labels    unsafe.Pointer
	sizeBytes int
	ended     bool
	partial   [2][]byte
	overflow  [2]bool
}

// ProcessScope has the lines that belong to no call.
var ProcessScope = &Scope{}

var (
	owners sync.Map // labels of a goroutine → *Scope
	ended  [keptOwners]unsafe.Pointer
	endAt  int

	scopesMu sync.Mutex
	scopes   = map[*Scope]struct{}{} // of running calls
)

// Begin makes the running goroutine work for a call; what was written before is not the call's.
func Begin(id string) *Scope {
	Drain()
	scope := &Scope{ID: id}
	labelled(scope)
	scopesMu.Lock()
	scopes[scope] = struct{}{}
	scopesMu.Unlock()
	return scope
}

// End takes what the call has written; what its goroutines write later goes out line by line.
func (s *Scope) End() {
	unlabelled()
	Drain()
	scopesMu.Lock()
	delete(scopes, s)
	if s.labels != nil {
		if old := ended[endAt]; old != nil {
			owners.Delete(old)
		}
		ended[endAt] = s.labels
		endAt = (endAt + 1) % keptOwners
	}
	scopesMu.Unlock()
	output.Lock()
	s.ended = true
	s.flush()
	output.Unlock()
}

// soleScope is the scope of the only call that runs; the process's when none or several do.
func soleScope() *Scope {
	scopesMu.Lock()
	defer scopesMu.Unlock()
	if len(scopes) == 1 {
		for scope := range scopes {
			return scope
		}
	}
	return ProcessScope
}

func flushScopes() {
	scopesMu.Lock()
	all := []*Scope{ProcessScope}
	for scope := range scopes {
		all = append(all, scope)
	}
	scopesMu.Unlock()
	output.Lock()
	defer output.Unlock()
	for _, scope := range all {
		scope.flush()
	}
}

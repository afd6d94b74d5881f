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

// How many ended calls still own the output of their goroutines.
const keptOwners = 4096

// Scope holds the output of one call, or of the process outside calls. The lock `output` guards all fields but ID.
type Scope struct {
	ID        string
	labels    unsafe.Pointer
	sizeBytes int
	ended     bool
	partial   [2][]byte
	overflow  [2]bool
}

// ProcessScope has the lines outside any call.
var ProcessScope = &Scope{}

var (
	owners sync.Map // labels of a goroutine → *Scope
	ended  [keptOwners]unsafe.Pointer
	endAt  int

	scopesMu sync.Mutex
	scopes   = map[*Scope]struct{}{} // of running calls
)

// Begin attributes the running goroutine to a call; earlier output is not the call's.
func Begin(id string) *Scope {
	Drain()
	scope := &Scope{ID: id}
	labelled(scope)
	scopesMu.Lock()
	scopes[scope] = struct{}{}
	scopesMu.Unlock()
	return scope
}

// End logs the call's remaining output; later output of its goroutines is logged line by line.
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

// soleScope returns the scope of the only running call; the process's when there are none or several.
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

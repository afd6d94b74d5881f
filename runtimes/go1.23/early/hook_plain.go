//go:build !sless_hooks

package early

// Without the hooks in package os (a toolchain that they do not fit) lines are told apart while one call runs at a time.

func hookWrite(func(stream int, piece []byte) bool) {}

func hookExit(func(code int)) {}

func labelled(*Scope) {}

func unlabelled() {}

func scopeOfGoroutine() *Scope { return soleScope() }

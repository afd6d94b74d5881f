//go:build sless_hooks

package early

import (
	"context"
	"os"
	"runtime/pprof"
)

func hookWrite(take func(stream int, piece []byte) bool) { os.SlessWrite = take }

func hookExit(onExit func(code int)) { os.SlessExit = onExit }

// labelled attributes the running goroutine, and those it starts, to the scope.
func labelled(scope *Scope) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("sless_invocation", scope.ID)))
	scope.labels = os.SlessLabels()
	owners.Store(scope.labels, scope)
}

func unlabelled() { pprof.SetGoroutineLabels(context.Background()) }

func scopeOfGoroutine() *Scope {
	labels := os.SlessLabels()
	if labels == nil {
		return ProcessScope
	}
	if scope, found := owners.Load(labels); found {
		return scope.(*Scope)
	}
	return soleScope() // the user set labels of their own
}

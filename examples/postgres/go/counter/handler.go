// Package handler counts its own calls: `invocation_n` increases with each one, also in parallel.
package handler

import "sync/atomic"

var calls atomic.Int64

func Handle(event any) any {
	return map[string]any{"invocation_n": calls.Add(1)}
}

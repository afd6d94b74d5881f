// Package errors has every way to fail, by name.
package errors

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// OddError is an error type that the user defines.
type OddError struct{ n int }

func (e *OddError) Error() string { return fmt.Sprint("odd ", e.n) }

// Hostile is an error whose text cannot be read.
type Hostile struct{}

func (Hostile) Error() string { panic("no") }

func deep(list []int) int { return list[len(list)] }

// far is more memory than there can be, which the compiler must not see.
func far() int { return 1 << (60 + len(os.Args)*0) }

var kept []*os.File

func descriptors() error {
	for {
		file, err := os.Open("/dev/null")
		if err != nil {
			return err
		}
		kept = append(kept, file)
	}
}

var failures = map[string]func() error{
	"descriptors":   descriptors,
	"no_process":    func() error { return os.NewSyscallError("fork/exec", syscall.EAGAIN) },
	"wrapped_exhaustion": func() error {
		return fmt.Errorf("the service cannot be reached: %w", descriptors())
	},
	"none":          func() error { return nil },
	"raise":         func() error { panic(errors.New("went wrong: 7")) },
	"raise_async":   func() error { time.Sleep(time.Millisecond); return errors.New("went wrong later") },
	"raise_empty":   func() error { return errors.New("") },
	"raise_unicode": func() error { return errors.New("schiefgegangen: ü 🎉") },
	"raise_long":    func() error { return errors.New(strings.Repeat("x", 5000)) },
	"own_type":      func() error { return &OddError{3} },
	"wrapped":       func() error { return fmt.Errorf("outer: %w", &OddError{3}) },
	"hostile":       func() error { return Hostile{} },
	"panic_text":    func() error { panic("just text") },
	"panic_nil_map": func() error { var m map[string]int; m["a"] = 1; return nil },
	"index":         func() error { _ = deep(nil); return nil },
	"too_large":     func() error { return fmt.Errorf("%d", len(make([]byte, far()))) },
	"goexit":        func() error { runtime.Goexit(); return nil },
	"goroutine":     func() error { go func() { panic("nobody catches this") }(); select {} },
	"exit": func() error {
		fmt.Print("last words")
		os.Exit(3)
		return nil
	},
}

func Fail(event map[string]any) (any, error) {
	kind := event["kind"].(string)
	if kind == "exhausted_stream" {
		return func(yield func(string, error) bool) { yield("", descriptors()) }, nil
	}
	return nil, failures[kind]()
}

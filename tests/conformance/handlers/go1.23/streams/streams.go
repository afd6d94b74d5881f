// Package streams has results that are sent piece by piece.
package streams

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

func sequence[T any](pieces ...T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, piece := range pieces {
			if !yield(piece) {
				return
			}
		}
	}
}

func repeated(piece []byte, count int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for index := 0; index < count && yield(piece); index++ {
		}
	}
}

type failing struct{ pieces []string }

func (f *failing) Read(buffer []byte) (int, error) {
	if len(f.pieces) == 0 {
		return 0, errors.New("cannot be read any more")
	}
	piece := f.pieces[0]
	f.pieces = f.pieces[1:]
	return copy(buffer, piece), nil
}

var streams = map[string]func() any{
	"text":   func() any { return sequence("one ", "two ", "three") },
	"binary": func() any { return repeated([]byte{0, 0xff}, 3) },
	"async": func() any {
		return iter.Seq[string](func(yield func(string) bool) {
			if yield("one ") {
				time.Sleep(10 * time.Millisecond)
				yield("two")
			}
		})
	},
	"status": func() any {
		return map[string]any{"statusCode": 207, "headers": map[string]any{"Content-Type": "text/csv", "X-S": "1"}, "body": sequence("a", "b")}
	},
	"empty":         func() any { return sequence[string]() },
	"large":         func() any { return repeated([]byte(strings.Repeat("z", 65536)), 48) },
	"fails_at_once": func() any { return iter.Seq[string](func(func(string) bool) { panic(errors.New("before the first")) }) },
	"fails_later": func() any {
		return iter.Seq2[string, error](func(yield func(string, error) bool) {
			_ = yield("first", nil) && yield("", errors.New("after the first"))
		})
	},
	"wrong_chunk": func() any { return sequence[any](map[string]any{"a": 1}) },
	"logs": func() any {
		return iter.Seq[string](func(yield func(string) bool) {
			fmt.Println("log a")
			if yield("a") {
				fmt.Println("log b")
				yield("b")
			}
		})
	},
	// Go only
	"reader":        func() any { return strings.NewReader("from a reader") },
	"reader_status": func() any { return map[string]any{"statusCode": 203, "body": io.Reader(strings.NewReader("read"))} },
	"reader_fails":  func() any { return &failing{pieces: []string{"first"}} },
	"mixed":         func() any { return sequence[any]("te", []byte("xt")) },
	"first_is_error": func() any {
		return iter.Seq2[[]byte, error](func(yield func([]byte, error) bool) { yield(nil, errors.New("no first")) })
	},
}

func Stream(event map[string]any) any { return streams[event["kind"].(string)]() }

func Generate(event map[string]any) any {
	return iter.Seq[string](func(yield func(string) bool) {
		for index := 0; index < int(event["n"].(float64)); index++ {
			if !yield(fmt.Sprintf("%d,", index)) {
				return
			}
		}
	})
}

func GenerateAsync(event map[string]any) any { return Generate(event) }

// Piped writes to a pipe from a goroutine until the reader is closed.
func Piped(event map[string]any) any {
	reader, writer := io.Pipe()
	go func() {
		defer fmt.Println("closed")
		for {
			if _, err := fmt.Fprintln(writer, "tick"); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return reader
}

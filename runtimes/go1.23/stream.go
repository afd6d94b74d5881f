package runtime

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"runtime/debug"
)

// stream yields the chunks of an answer until `yield` returns false. The context ends when the caller leaves. Errors come from the
// handler.
type stream func(ctx context.Context, yield func(piece []byte, isText bool) bool) error

// The iterator types that are streamed.
var (
	textsType      = reflect.TypeOf((func(func(string) bool))(nil))
	piecesType     = reflect.TypeOf((func(func([]byte) bool))(nil))
	anysType       = reflect.TypeOf((func(func(any) bool))(nil))
	textsErrorType = reflect.TypeOf((func(func(string, error) bool))(nil))
	bytesErrorType = reflect.TypeOf((func(func([]byte, error) bool))(nil))
	anysErrorType  = reflect.TypeOf((func(func(any, error) bool))(nil))
)

// streamOf returns a stream for an io.Reader, an iterator or a receiving channel of text or bytes; nil for other values.
func streamOf(value any) stream {
	if reader, ok := value.(io.Reader); ok {
		return streamOfReader(reader)
	}
	reflected := reflect.ValueOf(value)
	if reflected.Kind() != reflect.Func {
		return nil
	}
	kind := reflected.Type()
	as := func(wanted reflect.Type) bool { return kind.ConvertibleTo(wanted) }
	to := func(wanted reflect.Type) any { return reflected.Convert(wanted).Interface() }
	switch {
	case as(textsType):
		return streamOfIterator(to(textsType).(func(func(string) bool)))
	case as(piecesType):
		return streamOfIterator(to(piecesType).(func(func([]byte) bool)))
	case as(anysType):
		return streamOfIterator(to(anysType).(func(func(any) bool)))
	case as(textsErrorType):
		return streamOfFallible(to(textsErrorType).(func(func(string, error) bool)))
	case as(bytesErrorType):
		return streamOfFallible(to(bytesErrorType).(func(func([]byte, error) bool)))
	case as(anysErrorType):
		return streamOfFallible(to(anysErrorType).(func(func(any, error) bool)))
	}
	return nil
}

func streamOfReader(reader io.Reader) stream {
	return func(ctx context.Context, yield func([]byte, bool) bool) error {
		if closer, ok := reader.(io.Closer); ok {
			defer closer.Close()
			done := make(chan struct{})
			defer close(done)
			go func() { // interrupts a blocked Read when the caller leaves
				select {
				case <-ctx.Done():
					closer.Close()
				case <-done:
				}
			}()
		}
		buffer := make([]byte, 32*1024)
		for {
			n, err := reader.Read(buffer)
			if n > 0 && !yield(buffer[:n], false) {
				return nil
			}
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
}

func streamOfIterator[T any](iterate func(func(T) bool)) stream {
	return streamOfFallible(func(yield func(T, error) bool) {
		iterate(func(piece T) bool { return yield(piece, nil) })
	})
}

func streamOfFallible[T any](iterate func(func(T, error) bool)) stream {
	return func(_ context.Context, yield func([]byte, bool) bool) (failed error) {
		iterate(func(piece T, err error) bool {
			if err != nil {
				failed = err
				return false
			}
			switch piece := any(piece).(type) {
			case string:
				return yield([]byte(piece), true)
			case []byte:
				return yield(piece, false)
			}
			failed = fmt.Errorf("a chunk of a streamed answer must be text or bytes, not %s", chunkKindOf(piece))
			return false
		})
		return failed
	}
}

func chunkKindOf(piece any) string {
	switch kind := reflect.ValueOf(piece).Kind(); kind {
	case reflect.Map, reflect.Struct, reflect.Pointer:
		return fmt.Sprintf("an object (%T)", piece)
	default:
		return fmt.Sprintf("%T", piece)
	}
}

// pump runs a stream to its end; a panic becomes an error.
func (s stream) pump(ctx context.Context, yield func([]byte, bool) bool) (err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = panicked(thrown, debug.Stack())
		}
	}()
	return s(ctx, yield)
}

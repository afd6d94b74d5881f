package runtime

import (
	"errors"
	"fmt"
	"reflect"
	goruntime "runtime"
	"strings"
	"unicode/utf8"

	"sless.internal/runtime/early"
)

const maxMessageHeaderBytes = 1024

// badRequest: the handler does not accept the event.
type badRequest struct{ message string }

func (e *badRequest) Error() string { return e.message }

// badResult: the result is not a valid HTTP answer; its status, a header or its base64 is wrong.
type badResult struct{ message string }

func (e *badResult) Error() string { return e.message }

// notSerializable: a value cannot be written as JSON. The message names its path, such as `$.items[2].at`.
type notSerializable struct{ message string }

func (e *notSerializable) Error() string { return e.message }

// panicError wraps the value that a handler panicked with.
type panicError struct {
	thrown any
	stack  string
}

func (e *panicError) Error() string {
	if err, ok := e.thrown.(error); ok {
		return err.Error()
	}
	return fmt.Sprint(e.thrown)
}

func panicked(thrown any, stack []byte) error {
	return &panicError{thrown: thrown, stack: ownStackOf(string(stack))}
}

// ownStackOf returns the stack from the user's first frame on, without the runtime's frames.
func ownStackOf(stack string) string {
	lines := strings.Split(strings.TrimRight(stack, "\n"), "\n")
	kept := lines[:0:0]
	for index := 1; index+1 < len(lines); index += 2 {
		frame := lines[index]
		if strings.HasPrefix(frame, "panic(") || strings.HasPrefix(frame, "runtime/debug.") {
			kept = kept[:0] // frames of the recovery come first
			continue
		}
		if strings.HasPrefix(frame, "sless.internal/") || strings.HasPrefix(frame, "reflect.") {
			if len(kept) > 0 {
				break
			}
			continue
		}
		kept = append(kept, frame, lines[index+1])
	}
	return strings.Join(kept, "\n")
}

// typeOf names an error's type without package and pointer; plain errors of the standard library are "Error".
func typeOf(err error) string {
	if failure, ok := err.(*panicError); ok {
		inner, isError := failure.thrown.(error)
		switch {
		case !isError:
			return "Panic"
		case isRuntimeError(inner):
			return "RuntimeError"
		}
		err = inner
	}
	switch err.(type) {
	case *badRequest:
		return "InvalidEvent"
	case *badResult:
		return "BadResult"
	case *notSerializable:
		return "NotSerializable"
	}
	kind := reflect.TypeOf(err)
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if path := kind.PkgPath(); path == "errors" || path == "fmt" || kind.Name() == "" {
		return "Error"
	}
	return kind.Name()
}

func isRuntimeError(err error) bool {
	var found goruntime.Error
	return errors.As(err, &found)
}

// messageOf returns the error's message; it never panics.
func messageOf(err error) (message string) {
	defer func() {
		if recover() != nil || message == "" {
			message = typeOf(err)
		}
	}()
	return strings.ToValidUTF8(err.Error(), "\ufffd")
}

// traceOf returns the text for the log.
func traceOf(err error) string {
	text := typeOf(err) + ": " + messageOf(err)
	if failure, ok := err.(*panicError); ok {
		return "panic: " + text + "\n" + failure.stack
	}
	return text
}

// faultOf returns the error code when the platform refused the call, "" for errors of the handler.
func faultOf(err error) string {
	switch err.(type) {
	case *badRequest:
		return "invalid_json"
	case *badResult:
		return "bad_result"
	case *notSerializable:
		return "result_not_serializable"
	}
	return ""
}

// failureAnswer returns the caller's answer for an error.
func failureAnswer(err error, requestID string) *answer {
	message := messageOf(err)
	reply := &answer{status: 500, failed: err}
	reply.add("Content-Type", jsonType)
	reply.add("X-Sless-Error-Message", encodedMessageOf(message))
	switch err.(type) {
	case *badRequest:
		reply.status = 400
	case *badResult:
		reply.status = 502
	default:
		reply.add("X-Sless-Function-Error", "1")
	}
	fault := faultOf(err)
	if fault != "" {
		reply.add("X-Sless-Fault", fault)
	}
	if reply.status == 500 {
		reply.body = early.ErrorBody(message, typeOf(err), requestID)
	} else {
		reply.body = early.RefusalBody(message, fault, requestID)
	}
	reply.hasBody = true
	return reply
}

// encodedMessageOf percent-encodes a message and cuts it between characters.
func encodedMessageOf(message string) string {
	const unreserved = "-_.~"
	encoded := make([]byte, 0, len(message))
	for at := 0; at < len(message); {
		_, size := utf8.DecodeRuneInString(message[at:])
		next := make([]byte, 0, 12)
		for _, c := range []byte(message[at : at+size]) {
			if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte(unreserved, c) >= 0 {
				next = append(next, c)
			} else {
				next = append(next, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
			}
		}
		if len(encoded)+len(next) > maxMessageHeaderBytes {
			break
		}
		encoded = append(encoded, next...)
		at += size
	}
	return string(encoded)
}

package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// invoker calls the user's function.
type invoker func(ctx context.Context, event any) (any, error)

const expectedSignature = "expected func(event map[string]any) any, with context.Context first or an error last if wanted"

var (
	contextType = reflect.TypeOf((*context.Context)(nil)).Elem()
	errorType   = reflect.TypeOf((*error)(nil)).Elem()
	anyType     = reflect.TypeOf((*any)(nil)).Elem()
	objectType  = reflect.TypeOf(map[string]any(nil))
)

// handlerOf returns an invoker for a function's signature.
func handlerOf(handler any) (invoker, error) {
	function := reflect.ValueOf(handler)
	if !function.IsValid() || function.Kind() != reflect.Func {
		return nil, fmt.Errorf("expected a function, found %T", handler)
	}
	if function.IsNil() {
		return nil, errors.New("expected a function, found nil")
	}
	kind := function.Type()
	arguments, err := argumentsOf(kind)
	if err != nil {
		return nil, err
	}
	results, err := resultsOf(kind)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, event any) (any, error) {
		values, err := arguments(ctx, event)
		if err != nil {
			return nil, err
		}
		return results(function.Call(values))
	}, nil
}

func argumentsOf(kind reflect.Type) (func(context.Context, any) ([]reflect.Value, error), error) {
	count := kind.NumIn()
	withContext := count > 0 && kind.In(0) == contextType
	if withContext {
		count--
	}
	if count > 1 || kind.IsVariadic() {
		return nil, fmt.Errorf("%s; found %s", expectedSignature, kind)
	}
	var decode func(any) (reflect.Value, error)
	if count == 1 {
		decode = decoderOf(kind.In(kind.NumIn() - 1))
	}
	return func(ctx context.Context, event any) ([]reflect.Value, error) {
		values := make([]reflect.Value, 0, 2)
		if withContext {
			values = append(values, reflect.ValueOf(&ctx).Elem())
		}
		if decode != nil {
			value, err := decode(event)
			if err != nil {
				return nil, err
			}
			values = append(values, value)
		}
		return values, nil
	}, nil
}

// decoderOf returns a function that converts an event to the parameter's type.
func decoderOf(kind reflect.Type) func(any) (reflect.Value, error) {
	switch kind {
	case anyType:
		return func(event any) (reflect.Value, error) { return reflect.ValueOf(&event).Elem(), nil }
	case objectType:
		return func(event any) (reflect.Value, error) {
			object, ok := event.(map[string]any)
			if !ok {
				return reflect.Value{}, &badRequest{"the event must be a JSON object, not " + jsonKindOf(event)}
			}
			return reflect.ValueOf(object), nil
		}
	}
	return func(event any) (reflect.Value, error) {
		text, err := json.Marshal(event)
		if err != nil {
			return reflect.Value{}, err
		}
		value := reflect.New(kind)
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(value.Interface()); err != nil {
			return reflect.Value{}, &badRequest{fmt.Sprintf("the event does not fit %s: %s", kind, err)}
		}
		return value.Elem(), nil
	}
}

func resultsOf(kind reflect.Type) (func([]reflect.Value) (any, error), error) {
	count := kind.NumOut()
	withError := count > 0 && kind.Out(count-1) == errorType
	if withError {
		count--
	}
	if count > 1 {
		return nil, fmt.Errorf("%s; found %s", expectedSignature, kind)
	}
	return func(values []reflect.Value) (any, error) {
		if withError {
			if err, ok := values[len(values)-1].Interface().(error); ok && err != nil {
				return nil, err
			}
		}
		if count == 0 {
			return nil, nil
		}
		return values[0].Interface(), nil
	}, nil
}

// jsonKindOf names a JSON value's kind for messages.
func jsonKindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case float64, json.Number:
		return "a number"
	case []any:
		return "an array"
	}
	return "an object"
}

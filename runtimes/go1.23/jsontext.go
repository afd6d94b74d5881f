package runtime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

func textOf(number int) string { return strconv.Itoa(number) }

// jsonOf writes JSON as Python's json.dumps does, so that answers do not depend on the function's language. encoding/json decides
// which fields are written. Errors: notSerializable, or the error of a user's MarshalJSON.
func jsonOf(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := errTooDeep
	if !isTooDeep(reflect.ValueOf(value), maxDepth) {
		err = encoder.Encode(value)
	}
	if err != nil {
		place := findWrong(reflect.ValueOf(value), "$", nil)
		if place == "" {
			place = err.Error()
		}
		return nil, &notSerializable{"the result is not JSON serializable: " + place}
	}
	return spaced(bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))), nil
}

// A deeper result would end the process: a stack overflow cannot be recovered from. encoding/json itself finds cycles at this depth.
const maxDepth = 1000

var errTooDeep = errors.New("it is nested too deeply")

// isTooDeep reports whether maps, slices and pointers in `value` are nested deeper than `left` levels.
func isTooDeep(value reflect.Value, left int) bool {
	if left < 0 {
		return true
	}
	switch value.Kind() {
	case reflect.Interface:
		return !value.IsNil() && isTooDeep(value.Elem(), left)
	case reflect.Pointer:
		return !value.IsNil() && isTooDeep(value.Elem(), left-1)
	case reflect.Map:
		for each := value.MapRange(); each.Next(); {
			if isTooDeep(each.Value(), left-1) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if isScalar(value.Type().Elem().Kind()) {
			return false
		}
		for index := 0; index < value.Len(); index++ {
			if isTooDeep(value.Index(index), left-1) {
				return true
			}
		}
	case reflect.Struct:
		for index := 0; index < value.NumField(); index++ {
			if isTooDeep(value.Field(index), left-1) {
				return true
			}
		}
	}
	return false
}

func isScalar(kind reflect.Kind) bool { return kind <= reflect.Complex128 || kind == reflect.String }

// spaced adds a space after each comma and colon, and escapes non-ASCII characters.
func spaced(compact []byte) []byte {
	text := make([]byte, 0, len(compact)+len(compact)/8)
	inString := false
	for at := 0; at < len(compact); at++ {
		c := compact[at]
		switch {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(compact[at:])
			text = appendUnits(text, r)
			at += size - 1
			continue
		case inString && c == '\\':
			text = append(text, c, compact[at+1])
			at++
			continue
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == ':'):
			text = append(text, c)
			c = ' '
		}
		text = append(text, c)
	}
	return text
}

func appendUnits(text []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		return appendUnits(appendUnits(text, 0xd800+r>>10), 0xdc00+r&0x3ff)
	}
	return append(text, fmt.Sprintf(`\u%04x`, r)...)
}

// findWrong returns path and kind of the first value that cannot be written as JSON; "" when it finds none.
func findWrong(value reflect.Value, path string, above []any) string {
	if len(above) > 1000 {
		return path + " is nested too deeply"
	}
	switch value.Kind() {
	case reflect.Float32, reflect.Float64:
		return wrongFloat(value.Float(), path)
	case reflect.Complex64, reflect.Complex128:
		return path + " is a complex number"
	case reflect.Func:
		return path + " is a function"
	case reflect.Chan:
		return path + " is a channel"
	case reflect.Interface:
		return findWrong(value.Elem(), path, above)
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if value.IsNil() {
			return ""
		}
		identity := identityOf(value)
		for _, other := range above {
			if other == identity {
				return path + " is a cycle: it contains itself"
			}
		}
		above = append(above[:len(above):len(above)], identity)
	}
	return findWrongInside(value, path, above)
}

func identityOf(value reflect.Value) any {
	if value.Kind() == reflect.Slice {
		return [3]any{value.Pointer(), value.Len(), value.Type()}
	}
	return [2]any{value.Pointer(), value.Type()}
}

func findWrongInside(value reflect.Value, path string, above []any) string {
	switch value.Kind() {
	case reflect.Pointer:
		return findWrong(value.Elem(), path, above)
	case reflect.Slice, reflect.Array:
		for index := 0; index < value.Len(); index++ {
			if found := findWrong(value.Index(index), path+"["+textOf(index)+"]", above); found != "" {
				return found
			}
		}
	case reflect.Map:
		return findWrongEntry(value, path, above)
	case reflect.Struct:
		for index := 0; index < value.NumField(); index++ {
			field := value.Type().Field(index)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() || name == "-" {
				continue
			}
			if name == "" {
				name = field.Name
			}
			if found := findWrong(value.Field(index), path+"."+name, above); found != "" {
				return found
			}
		}
	}
	return ""
}

func findWrongEntry(value reflect.Value, path string, above []any) string {
	if kind := value.Type().Key().Kind(); kind == reflect.Float64 || kind == reflect.Bool || kind == reflect.Interface || kind == reflect.Struct {
		return path + " is a map with keys of type " + value.Type().Key().String()
	}
	keys := value.MapKeys()
	sort.Slice(keys, func(a, b int) bool { return fmt.Sprint(keys[a]) < fmt.Sprint(keys[b]) })
	for _, key := range keys {
		if found := findWrong(value.MapIndex(key), path+"."+fmt.Sprint(key), above); found != "" {
			return found
		}
	}
	return ""
}

func wrongFloat(number float64, path string) string {
	switch {
	case math.IsNaN(number):
		return path + " is NaN"
	case math.IsInf(number, 1):
		return path + " is Infinity"
	case math.IsInf(number, -1):
		return path + " is -Infinity"
	}
	return ""
}

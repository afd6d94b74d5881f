package runtime

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"
)

const httpTime = "Mon, 02 Jan 2006 15:04:05 GMT"

// Set by the runtime itself, or specific to the connection with sless.
var ownHeaders = map[string]bool{
	"content-length": true, "keep-alive": true, "proxy-authenticate": true, "proxy-connection": true, "te": true,
	"trailer": true, "transfer-encoding": true, "upgrade": true,
}

// takeHeaders sets the headers, multiValueHeaders and cookies of a result, sorted by name. Errors: badResult.
func (a *answer) takeHeaders(fields map[string]any) error {
	if err := a.takeAllHeaders(fields); err != nil {
		return err
	}
	if a.has("connection") {
		a.dropConnection()
	}
	return nil
}

// dropConnection removes Connection and the headers that it names: they are for this connection only (RFC 9110, 7.6.1).
func (a *answer) dropConnection() {
	dropped := map[string]bool{"connection": true}
	for _, field := range a.headers {
		if strings.EqualFold(field.name, "connection") {
			for _, name := range strings.Split(field.value, ",") {
				dropped[strings.ToLower(strings.TrimSpace(name))] = true
			}
		}
	}
	kept := a.headers[:0]
	for _, field := range a.headers {
		if !dropped[strings.ToLower(field.name)] {
			kept = append(kept, field)
		}
	}
	a.headers = kept
}

func (a *answer) takeAllHeaders(fields map[string]any) error {
	multi, err := entriesOf(fields, "multiValueHeaders")
	if err != nil {
		return err
	}
	single, err := entriesOf(fields, "headers")
	if err != nil {
		return err
	}
	for _, name := range sortedNames(single) {
		if !hasFold(multi, name) {
			if err := a.takeHeader(name, single[name]); err != nil {
				return err
			}
		}
	}
	for _, name := range sortedNames(multi) {
		if err := a.takeHeader(name, multi[name]); err != nil {
			return err
		}
	}
	cookies := fields["cookies"]
	if cookies == nil || isNilSlice(cookies) {
		return nil
	}
	if reflect.ValueOf(cookies).Kind() != reflect.Slice {
		return &badResult{"cookies must be an array, not " + shown(cookies)}
	}
	return a.takeHeader("Set-Cookie", cookies)
}

func isNilSlice(value any) bool {
	reflected := reflect.ValueOf(value)
	return reflected.Kind() == reflect.Slice && reflected.IsNil()
}

func entriesOf(fields map[string]any, field string) (map[string]any, error) {
	value := fields[field]
	if value == nil {
		return nil, nil
	}
	reflected := reflect.ValueOf(value)
	if reflected.Kind() != reflect.Map || reflected.Type().Key().Kind() != reflect.String {
		return nil, &badResult{field + " must be an object, not " + shown(value)}
	}
	return stringKeyed(reflected), nil
}

func sortedNames(entries map[string]any) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func hasFold(entries map[string]any, name string) bool {
	for other := range entries {
		if strings.EqualFold(other, name) {
			return true
		}
	}
	return false
}

func (a *answer) takeHeader(name string, value any) error {
	if !isToken(name) {
		return &badResult{"header " + strconv.Quote(name) + ": not a valid header name"}
	}
	if lower := strings.ToLower(name); ownHeaders[lower] || strings.HasPrefix(lower, "x-sless-") {
		return nil
	}
	if reflected := reflect.ValueOf(value); reflected.Kind() == reflect.Slice && reflected.Type().Elem().Kind() != reflect.Uint8 {
		for index := 0; index < reflected.Len(); index++ {
			if err := a.takeValue(name, reflected.Index(index).Interface()); err != nil {
				return err
			}
		}
		return nil
	}
	return a.takeValue(name, value)
}

func (a *answer) takeValue(name string, value any) error {
	text := ""
	switch value := value.(type) {
	case nil:
		return nil
	case string:
		text = value
	case time.Time:
		text = value.UTC().Format(httpTime)
	default:
		switch reflect.ValueOf(value).Kind() {
		case reflect.Map, reflect.Struct, reflect.Slice, reflect.Array, reflect.Func, reflect.Chan, reflect.Pointer:
			return &badResult{"header " + name + ": the value must be text, not " + shown(value)}
		}
		text = fmt.Sprint(value)
	}
	encoded, valid := latin1Encoded(text)
	if !valid {
		return &badResult{"header " + name + ": the value contains characters that are not allowed in a header: " + shown(text)}
	}
	a.add(name, encoded)
	return nil
}

// latin1Encoded encodes a header's value; false when it contains characters that are not allowed in a header.
func latin1Encoded(text string) (string, bool) {
	ascii := true
	for at := 0; at < len(text); at++ {
		c := text[at]
		if c < ' ' && c != '\t' || c == 0x7f {
			return "", false
		}
		ascii = ascii && c < 0x80
	}
	if ascii {
		return text, true
	}
	encoded := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			return "", false
		}
		encoded = append(encoded, byte(r))
	}
	return string(encoded), true
}

// latin1Decoded decodes a received header's value.
func latin1Decoded(value string) string {
	for at := 0; at < len(value); at++ {
		if value[at] >= 0x80 {
			runes := make([]rune, len(value))
			for index := range runes {
				runes[index] = rune(value[index])
			}
			return string(runes)
		}
	}
	return value
}

func isToken(name string) bool {
	for at := 0; at < len(name); at++ {
		c := name[at]
		letterOrDigit := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letterOrDigit && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

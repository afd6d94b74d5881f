package runtime

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

const (
	textType   = "text/plain; charset=utf-8"
	binaryType = "application/octet-stream"
	jsonType   = "application/json"
)

// answer has a body, none (204, 304) or a stream. `failed` is the error that it reports.
type answer struct {
	status  int
	headers []header
	body    []byte
	hasBody bool
	stream  stream
	failed  error
}

func (a *answer) add(name, value string) { a.headers = append(a.headers, header{name, value}) }

func (a *answer) has(name string) bool {
	for _, field := range a.headers {
		if strings.EqualFold(field.name, name) {
			return true
		}
	}
	return false
}

// setBody sets a body and its default Content-Type; the handler's own Content-Type takes precedence.
func (a *answer) setBody(body []byte, contentType string) {
	a.body, a.hasBody = body, true
	if contentType != "" && !a.has("content-type") {
		a.add("Content-Type", contentType)
	}
}

// answerOf converts a handler's result into an answer. Errors: badResult, notSerializable.
func answerOf(value any) (*answer, error) {
	reply := &answer{status: 200}
	switch value := value.(type) {
	case nil:
		reply.status = 204
		return reply, nil
	case map[string]any:
		if _, found := value["statusCode"]; found {
			return httpAnswerOf(value)
		}
	case string, []byte:
		return reply, reply.takeBody(value)
	default:
		if isNilPointer(value) {
			reply.status = 204
			return reply, nil
		}
		if fields := httpFieldsOf(value); fields != nil {
			return httpAnswerOf(fields)
		}
	}
	return reply, reply.takeBody(value)
}

// takeBody sets the body by its type: text, bytes, a stream, anything else as JSON.
func (a *answer) takeBody(value any) error {
	switch body := value.(type) {
	case string:
		a.setBody([]byte(body), textType)
		return nil
	case []byte:
		a.setBody(body, binaryType)
		return nil
	}
	if a.stream = streamOf(value); a.stream != nil {
		return nil
	}
	text, err := jsonOf(value)
	if err != nil {
		return err
	}
	a.setBody(text, jsonType)
	return nil
}

func isNilPointer(value any) bool {
	reflected := reflect.ValueOf(value)
	kind := reflected.Kind()
	return (kind == reflect.Pointer || kind == reflect.Map || kind == reflect.Func) && reflected.IsNil()
}

// httpFieldsOf returns the fields of a map or struct that has a statusCode; nil for other values.
func httpFieldsOf(value any) map[string]any {
	reflected := reflect.ValueOf(value)
	for reflected.Kind() == reflect.Pointer {
		reflected = reflected.Elem()
	}
	var fields map[string]any
	switch reflected.Kind() {
	case reflect.Map:
		fields = stringKeyed(reflected)
	case reflect.Struct:
		fields = taggedFields(reflected)
	}
	if _, found := fields["statusCode"]; !found {
		return nil
	}
	return fields
}

func stringKeyed(value reflect.Value) map[string]any {
	if value.Type().Key().Kind() != reflect.String {
		return nil
	}
	fields := make(map[string]any, value.Len())
	for entries := value.MapRange(); entries.Next(); {
		fields[entries.Key().String()] = entries.Value().Interface()
	}
	return fields
}

// taggedFields returns the fields with a json tag, without empty ones marked omitempty.
func taggedFields(value reflect.Value) map[string]any {
	fields := map[string]any{}
	for index := 0; index < value.NumField(); index++ {
		field := value.Type().Field(index)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "" || name == "-" {
			continue
		}
		if strings.Contains(options, "omitempty") && value.Field(index).IsZero() {
			continue
		}
		fields[name] = value.Field(index).Interface()
	}
	return fields
}

func httpAnswerOf(fields map[string]any) (*answer, error) {
	status, err := statusOf(fields["statusCode"])
	if err != nil {
		return nil, err
	}
	reply := &answer{status: status}
	if err := reply.takeHeaders(fields); err != nil {
		return nil, err
	}
	body := fields["body"]
	encoded, _ := fields["isBase64Encoded"].(bool)
	switch {
	case body == nil || isNilPointer(body):
		reply.setBody(nil, "")
	case encoded:
		err = reply.takeBase64(body)
	default:
		err = reply.takeBody(body)
	}
	if status == 204 || status == 304 {
		reply.body, reply.hasBody, reply.stream = nil, false, nil
	}
	return reply, err
}

func (a *answer) takeBase64(body any) error {
	text, isText := body.(string)
	if !isText {
		return &badResult{"body must be base64 text when isBase64Encoded is set, not " + shown(body)}
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return &badResult{"body is not valid base64 although isBase64Encoded is set: " + shown(text)}
	}
	a.setBody(decoded, binaryType)
	return nil
}

func statusOf(value any) (int, error) {
	status, reflected := -1, reflect.ValueOf(value)
	switch {
	case !reflected.IsValid():
	case reflected.CanInt():
		status = int(reflected.Int())
	case reflected.CanUint():
		status = int(reflected.Uint())
	case reflected.CanFloat():
		if number := reflected.Float(); number == float64(int(number)) {
			status = int(number)
		}
	case reflected.Kind() == reflect.String: // json.Number too
		if number, err := strconv.Atoi(reflected.String()); err == nil && !strings.HasPrefix(reflected.String(), "+") {
			status = number
		}
	}
	if status < 200 || status > 599 {
		return 0, &badResult{"statusCode must be an integer from 200 to 599, not " + shown(value)}
	}
	return status, nil
}

// shown formats a wrong value for an error message.
func shown(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case string:
		if len(value) > 100 {
			value = value[:100]
		}
		return strconv.Quote(value)
	case bool, json.Number:
		return fmt.Sprint(value)
	}
	if kind := reflect.ValueOf(value); kind.CanInt() || kind.CanUint() || kind.CanFloat() {
		return fmt.Sprint(value)
	}
	return fmt.Sprintf("a %T", value)
}

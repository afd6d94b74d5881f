package runtime

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"sless.internal/runtime/early"
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// event builds the handler's event: JSON body, query, form, or the body as text or base64.
func (c *call) event() (any, error) {
	if c.overHTTP {
		switch early.Config.EventFormat {
		case "aws-http-v1":
			return eventV1Of(c), nil
		case "aws-http-v2":
			return eventV2Of(c), nil
		}
	}
	if len(c.body) == 0 {
		return lastValues(pairsOf(c.queryText)), nil
	}
	if c.isEncoded() {
		return map[string]any{"body": base64.StdEncoding.EncodeToString(c.body), "isBase64Encoded": true}, nil
	}
	mediaType := mediaTypeOf(c.contentType)
	if isJSONType(mediaType) {
		value, err := parsedJSON(c.body)
		if err != nil {
			return nil, &badRequest{"the request body is not valid JSON: " + err.Error()}
		}
		return value, nil
	}
	return c.eventOfOther(mediaType), nil
}

// isEncoded reports whether the body has a Content-Encoding.
func (c *call) isEncoded() bool {
	for _, field := range c.headers {
		if strings.EqualFold(field.name, "content-encoding") {
			return field.value != "" && field.value != "identity"
		}
	}
	return false
}

func (c *call) eventOfOther(mediaType string) any {
	switch mediaType {
	case "":
		if value, found := foundJSON(c.body, "\"[{-0123456789tfn"); found {
			return value
		}
	case "application/x-www-form-urlencoded":
		if value, found := foundJSON(c.body, "[{"); found { // `curl -d` declares JSON as a form
			return value
		}
		return lastValues(c.formPairs())
	case "multipart/form-data":
		if boundaryOf(c.contentType) != "" {
			return lastValues(c.formPairs())
		}
	}
	return bodyFields(c.body, map[string]any{})
}

// formPairs returns the fields of a form body in order; none for other bodies.
func (c *call) formPairs() []pair {
	switch mediaTypeOf(c.contentType) {
	case "application/x-www-form-urlencoded":
		return pairsIn(string(c.body), charsetOf(c.contentType))
	case "multipart/form-data":
		if boundary := boundaryOf(c.contentType); boundary != "" {
			return multipartPairs(c.body, boundary)
		}
	}
	return nil
}

func mediaTypeOf(contentType string) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(mediaType))
}

func isJSONType(mediaType string) bool {
	return mediaType == jsonType || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}

func parsedJSON(body []byte) (value any, err error) {
	body = bytes.TrimPrefix(body, byteOrderMark)
	if !utf8.Valid(body) {
		return nil, errors.New("it is not UTF-8 text")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	switch err = decoder.Decode(&value); err {
	case nil:
		if _, more := decoder.Token(); more != io.EOF {
			return nil, errors.New("unexpected text after the value")
		}
		return numbersOf(value)
	case io.EOF, io.ErrUnexpectedEOF:
		err = errors.New("it ends too early")
	}
	return nil, err
}

// numbersOf converts the numbers of an event to float64, as handlers expect of encoding/json; an integer that float64 cannot hold
// exactly stays a json.Number.
func numbersOf(value any) (any, error) {
	var err error
	switch value := value.(type) {
	case json.Number:
		number, err := value.Float64()
		if err != nil {
			return nil, fmt.Errorf("the number %.40s is out of range", value)
		}
		if math.Abs(number) >= 1<<53 && strings.Trim(string(value), "-0123456789") == "" {
			return value, nil
		}
		return number, nil
	case map[string]any:
		for name, item := range value {
			if value[name], err = numbersOf(item); err != nil {
				return nil, err
			}
		}
	case []any:
		for index, item := range value {
			if value[index], err = numbersOf(item); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// foundJSON parses the body if it starts with one of `starts` and is JSON.
func foundJSON(body []byte, starts string) (any, bool) {
	text := bytes.TrimLeft(bytes.TrimPrefix(body, byteOrderMark), " \t\r\n")
	if len(text) == 0 || strings.IndexByte(starts, text[0]) < 0 {
		return nil, false
	}
	value, err := parsedJSON(body)
	return value, err == nil
}

// bodyFields adds the body as text, or as base64 when it is not UTF-8.
func bodyFields(body []byte, fields map[string]any) map[string]any {
	if utf8.Valid(body) {
		fields["body"] = string(body)
	} else {
		fields["body"] = base64.StdEncoding.EncodeToString(body)
		fields["isBase64Encoded"] = true
	}
	return fields
}

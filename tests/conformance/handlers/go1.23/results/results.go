// Package results has every form of result, by name.
package results

import (
	"encoding/base64"
	"math"
	"time"
)

type object = map[string]any

var png = func() []byte {
	bytes := make([]byte, 256)
	for index := range bytes {
		bytes[index] = byte(index)
	}
	return bytes
}()

type point struct {
	X      int            `json:"x"`
	Y      []int          `json:"y"`
	Hidden string         `json:"-"`
	Maybe  string         `json:"maybe,omitempty"`
	More   map[string]any `json:"more"`
}

// Reply is a result as a struct, in the form that Lambda expects.
type Reply struct {
	StatusCode      int               `json:"statusCode"`
	Headers         map[string]string `json:"headers"`
	Body            string            `json:"body"`
	IsBase64Encoded bool              `json:"isBase64Encoded,omitempty"`
}

func oneTwo(yield func(string) bool) { _ = yield("one") && yield("two") }

func cycle() any {
	node := object{}
	node["self"] = node
	return node
}

func deepCycle() any {
	inner := object{}
	node := object{"a": []any{inner}}
	inner["back"] = node
	return node
}

func answer(status any, body any, more ...object) object {
	made := object{"statusCode": status, "body": body}
	for _, fields := range more {
		for name, value := range fields {
			made[name] = value
		}
	}
	return made
}

func with(name string, value any) object { return object{"headers": object{name: value}} }

var forms = map[string]func() any{
	"object":             func() any { return object{"a": 1, "b": []any{true, nil}} },
	"array":              func() any { return []int{1, 2} },
	"number":             func() any { return 42 },
	"boolean":            func() any { return false },
	"text":               func() any { return "Grüße" },
	"empty_text":         func() any { return "" },
	"binary":             func() any { return png },
	"nothing":            func() any { return nil },
	"status":             func() any { return answer(201, "made", object{"headers": object{"X-Made": "yes", "X-Count": 3}}) },
	"status_text":        func() any { return answer("404", "no") },
	"status_only":        func() any { return object{"statusCode": 202} },
	"status_object_body": func() any { return answer(200, object{"ok": true}) },
	"status_binary":      func() any { return answer(200, png, with("content-type", "image/png")) },
	"status_base64": func() any {
		return answer(200, base64.StdEncoding.EncodeToString(png), with("Content-Type", "image/png"), object{"isBase64Encoded": true})
	},
	"status_html": func() any { return answer(200, "<p>hi</p>", with("CONTENT-TYPE", "text/html")) },
	"multi_headers": func() any {
		return answer(200, "ok", object{"multiValueHeaders": map[string][]string{"X-Many": {"1", "2"}}, "cookies": []string{"a=1; Path=/", "b=2"}})
	},
	"multi_over_single": func() any {
		single, multi := object{"x-many": "0", "X-One": "1"}, object{"X-Many": []string{"1", "2"}}
		return answer(200, "ok", object{"headers": single, "multiValueHeaders": multi})
	},
	"latin_header":     func() any { return answer(200, "日本", with("X-Wide", "Grüße")) },
	"base64_text_flag": func() any { return answer(200, "aGk=", object{"isBase64Encoded": "false"}) },
	"base64_nothing":   func() any { return answer(200, nil, object{"isBase64Encoded": true}) },
	"base64_object":    func() any { return answer(200, object{"a": 1}, object{"isBase64Encoded": true}) },
	"stream":           func() any { return oneTwo },
	"bodiless_stream":  func() any { return answer(204, oneTwo) },
	"list_header":      func() any { return answer(200, "ok", with("X-Many", []any{"1", "2"})) },
	"status_500":       func() any { return answer(500, "own failure") },
	"status_304":       func() any { return answer(304, "ignored") },
	"hop_headers": func() any {
		return answer(200, "ok", object{"headers": map[string]string{
			"X-Sless-Error": "forged", "x-sless-fault": "forged", "Keep-Alive": "timeout=1", "Transfer-Encoding": "gzip",
			"Content-Length": "999", "Connection": "close, X-named", "X-Kept": "1",
		}, "multiValueHeaders": object{"x-Named": []string{"1"}}})
	},
	"redirect":           func() any { return object{"statusCode": 302, "headers": object{"Location": "/elsewhere?a=b"}} },
	"status_too_high":    func() any { return answer(600, nil) },
	"status_too_low":     func() any { return answer(199, nil) },
	"status_word":        func() any { return answer("teapot", nil) },
	"status_true":        func() any { return answer(true, nil) },
	"header_name":        func() any { return answer(200, "x", with("bad name", "x")) },
	"header_newline":     func() any { return answer(200, "x", with("X-Split", "a\r\nX-Forged: 1")) },
	"header_wide":        func() any { return answer(200, "x", with("X-Wide", "日本")) },
	"headers_not_object": func() any { return answer(200, "x", object{"headers": []any{1}}) },
	"bad_base64":         func() any { return answer(200, "!!!", object{"isBase64Encoded": true}) },
	"nan":                func() any { return object{"items": []any{1, object{"ratio": math.NaN()}}} },
	"infinity":           func() any { return []float64{math.Inf(1)} },
	"cycle":              cycle,
	"deep_cycle":         deepCycle,
	"nan_body":           func() any { return answer(200, object{"x": math.NaN()}) },
	"strange":            func() any { return object{"value": func() {}} },
	// Go only
	"rich": func() any {
		return object{
			"when": time.Date(2026, 1, 31, 9, 26, 53, 589_000_000, time.UTC), "raw": []byte{0xff, 0},
			"point": point{X: 1, Y: []int{2}, Hidden: "no"}, "pointer": &point{X: 3}, "keys": map[int]string{2: "two", 1: "one"},
		}
	},
	"separators":    func() any { return object{"a": []int{1, 2}, "b": "ü\"\n<&>🎉", "ключ": object{}} },
	"struct_reply":  func() any { return Reply{StatusCode: 201, Headers: map[string]string{"X-A": "1"}, Body: "made"} },
	"pointer_reply": func() any { return &Reply{StatusCode: 202, Body: "bWFkZQ==", IsBase64Encoded: true} },
	"text_map":      func() any { return map[string]string{"statusCode": "404", "body": "none"} },
	"nil_pointer":   func() any { return (*Reply)(nil) },
	"header_date":   func() any { return answer(200, "x", with("Last-Modified", time.Unix(0, 0))) },
	"abyss": func() any {
		var deep any
		for level := 0; level < 100_000; level++ {
			deep = []any{deep}
		}
		return deep
	},
	"channel":       func() any { return object{"c": make(chan int)} },
	"struct_nan":    func() any { return struct{ Ratio float64 }{math.NaN()} },
	"shared": func() any {
		one := object{"n": 1}
		return []any{one, one}
	},
}

func Form(event map[string]any) any { return forms[event["form"].(string)]() }

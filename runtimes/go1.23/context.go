package runtime

import (
	"context"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"sless.internal/runtime/early"
)

// Remaining time of a call without a deadline.
const unlimitedMS = int64(math.MaxInt64 / 1_000_000)

// callContext is the handler's context. Value("sless") is the call as a map; Value("sless.stdout") and Value("sless.stderr") are
// writers whose lines are logged for the call from any goroutine.
type callContext struct {
	context.Context
	call *call
	once sync.Once
	view map[string]any
}

func (c *callContext) Value(key any) any {
	switch key {
	case "sless":
		c.once.Do(func() { c.view = viewOf(c.call) })
		return c.view
	case "sless.stdout":
		return io.Writer(scopeWriter{c.call.scope, early.Stdout})
	case "sless.stderr":
		return io.Writer(scopeWriter{c.call.scope, early.Stderr})
	}
	return c.Context.Value(key)
}

type scopeWriter struct {
	scope  *early.Scope
	stream early.Stream
}

func (w scopeWriter) Write(piece []byte) (int, error) {
	early.Write(w.scope, w.stream, piece)
	return len(piece), nil
}

func (c *call) remainingMS() int64 {
	if c.deadline.IsZero() {
		return unlimitedMS
	}
	if left := time.Until(c.deadline).Milliseconds(); left > 0 {
		return left
	}
	return 0
}

func viewOf(c *call) map[string]any {
	config := &early.Config
	view := map[string]any{
		"request_id": c.requestID, "aws_request_id": c.requestID,
		"function_name": config.FunctionName, "namespace": config.Namespace,
		"version": config.Version, "function_version": textOf(config.Version),
		"trigger":   c.trigger,
		"memory_mb": config.MemoryMB, "memory_limit_in_mb": config.MemoryMB,
		"timeout_sec":                  config.TimeoutSec,
		"remaining_ms":                 c.remainingMS,
		"get_remaining_time_in_millis": c.remainingMS,
		"invoked_function_arn":         "arn:sless:lambda::" + config.Namespace + ":function:" + config.FunctionName,
		"log_group_name":               "/sless/" + config.Namespace + "/" + config.FunctionName,
		"log_stream_name":              textOf(config.Version) + "/" + textOf(os.Getpid()),
		"http":                         nil,
		"message":                      nil,
	}
	if c.overHTTP {
		view["http"] = httpViewOf(c)
	}
	if c.trigger == "event" {
		view["message"] = amqpMessageOf(c)
	}
	return view
}

// amqpMessageOf returns the properties of the AMQP message behind an event call; nil for an event that was fired by hand.
func amqpMessageOf(c *call) any {
	for _, field := range c.headers {
		if strings.EqualFold(field.name, "x-sless-message") {
			message, _ := parsedJSON([]byte(field.value))
			return message
		}
	}
	return nil
}

func httpViewOf(c *call) map[string]any {
	headers := plainHeaders(c.headers, ", ")
	query := pairsOf(c.queryText)
	return map[string]any{
		"method": c.method, "path": unquoted(c.rawPath), "raw_path": c.rawPath, "full_path": c.fullPath,
		"raw_query":   c.queryText,
		"query":       textFields(lastValues(query)),
		"multi_query": textLists(allValues(query)),
		"multi_form":  allValues(c.formPairs()),
		"headers":     headers,
		"header":      func(name string) string { return headers[strings.ToLower(name)] },
		"body":        c.body,
		"client_ip":   c.clientIP,
	}
}

func textFields(fields map[string]any) map[string]string {
	texts := make(map[string]string, len(fields))
	for name, value := range fields {
		texts[name], _ = value.(string)
	}
	return texts
}

func textLists(fields map[string][]any) map[string][]string {
	lists := make(map[string][]string, len(fields))
	for name, values := range fields {
		for _, value := range values {
			text, _ := value.(string)
			lists[name] = append(lists[name], text)
		}
	}
	return lists
}

// plainHeaders returns the caller's headers by lower-case name, without X-Sless-*; repeated ones are joined.
func plainHeaders(headers []header, separator string) map[string]string {
	plain := make(map[string]string, len(headers))
	for _, field := range headers {
		name := strings.ToLower(field.name)
		if strings.HasPrefix(name, "x-sless-") {
			continue
		}
		value := latin1Decoded(field.value)
		if earlier, found := plain[name]; found {
			if name == "cookie" {
				value = earlier + "; " + value
			} else {
				value = earlier + separator + value
			}
		}
		plain[name] = value
	}
	return plain
}

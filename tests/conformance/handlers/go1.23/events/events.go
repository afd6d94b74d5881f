// Package events shows a handler's event and context.
package events

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
)

func Echo(event any) any { return map[string]any{"event": event} }

func OnlyEvent(event map[string]any) any { return event["n"] }

func EchoAsync(ctx context.Context, event map[string]any) (any, error) {
	call := ctx.Value("sless").(map[string]any)
	return map[string]any{"event": event, "request_id": call["request_id"]}, nil
}

func Show(ctx context.Context, event any) any {
	call := ctx.Value("sless").(map[string]any)
	remainingMS := call["remaining_ms"].(func() int64)()
	awsMS := call["get_remaining_time_in_millis"].(func() int64)()
	shown := map[string]any{
		"log_stream_is_the_process":  call["log_stream_name"] == fmt.Sprintf("%v/%d", call["version"], os.Getpid()),
		"request_id_is_set":          call["request_id"] != "",
		"remaining_is_plausible":     remainingMS > 20_000 && remainingMS <= 25_000,
		"aws_remaining_is_plausible": awsMS > 20_000 && awsMS <= 25_000,
		"unlimited":                  remainingMS > math.MaxInt32,
	}
	for _, name := range []string{
		"request_id", "aws_request_id", "message", "function_name", "namespace", "version", "function_version", "trigger", "memory_mb", "timeout_sec",
		"invoked_function_arn", "log_group_name", "memory_limit_in_mb",
	} {
		shown[name] = call[name]
	}
	return map[string]any{"event": event, "http": shownHTTP(call["http"]), "context": shown}
}

func shownHTTP(value any) any {
	http, found := value.(map[string]any)
	if !found {
		return nil
	}
	headers := http["headers"].(map[string]string)
	sless := []string{}
	for name := range headers {
		if strings.HasPrefix(strings.ToLower(name), "x-sless") {
			sless = append(sless, name)
		}
	}
	shown := map[string]any{
		"headers":         headers,
		"header_any_case": http["header"].(func(string) string)("x-cUSTOM"),
		"sless_headers":   sless,
		"body_base64":     base64.StdEncoding.EncodeToString(http["body"].([]byte)),
	}
	for _, name := range []string{"method", "path", "raw_path", "full_path", "raw_query", "query", "multi_query", "multi_form", "client_ip"} {
		shown[name] = http[name]
	}
	return shown
}

func Environment() any {
	names := []string{}
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "SLESS_") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	_, err := os.Stat("events/events.go")
	return map[string]any{"sless": names, "greeting": os.Getenv("GREETING"), "in_code_dir": err == nil}
}

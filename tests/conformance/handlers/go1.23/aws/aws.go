// Package aws has handlers as written for AWS Lambda behind an HTTP API.
package aws

import (
	"context"
	"encoding/json"
	"sort"
)

type Reply struct {
	StatusCode int               `json:"statusCode"`
	Headers    map[string]string `json:"headers"`
	Cookies    []string          `json:"cookies"`
	Body       string            `json:"body"`
}

func Handler(ctx context.Context, event json.RawMessage) (Reply, error) {
	headers := map[string]string{"X-From": "lambda", "Content-Type": "application/json"}
	return Reply{StatusCode: 201, Headers: headers, Cookies: []string{"c=3"}, Body: string(event)}, nil
}

func Keys(event map[string]any) any {
	keys := []string{}
	for key := range event {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func Plain(event map[string]any) any { return map[string]any{"message": "hi"} }

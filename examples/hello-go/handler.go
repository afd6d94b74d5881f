// Package handler greets the caller: POST {"name": "Ada"} or GET ?name=Ada.
package handler

import (
	"context"
	"fmt"
)

// Handle is the entrypoint handler.Handle.
func Handle(ctx context.Context, event map[string]any) any {
	name, _ := event["name"].(string)
	if name == "" {
		name = "world"
	}
	call := ctx.Value("sless").(map[string]any)
	fmt.Printf("greeting %s, request %s\n", name, call["request_id"])
	return map[string]any{"message": "Hello, " + name + "!", "runtime": "go", "version": call["version"]}
}

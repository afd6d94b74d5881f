package handler

import (
	"context"
	"testing"
)

func TestHandleGreets(t *testing.T) {
	ctx := context.WithValue(context.Background(), "sless", map[string]any{"request_id": "test", "version": 1})
	for name, wanted := range map[string]string{"Ada": "Hello, Ada!", "": "Hello, world!"} {
		answer := Handle(ctx, map[string]any{"name": name}).(map[string]any)
		if answer["message"] != wanted {
			t.Errorf("name %q: expected %q, found %q", name, wanted, answer["message"])
		}
	}
}

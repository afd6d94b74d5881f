// Package handler dereferences a nil pointer unless the event disables it: a panic is a 500, and the next call works.
package handler

type node struct{ next *node }

func Handle(event map[string]any) any {
	crash := true
	if given, ok := event["crash"].(bool); ok {
		crash = given
	}
	var list *node
	if !crash {
		list = &node{}
	}
	return map[string]any{"crashed": false, "last": list.next == nil}
}

// Package handler computes a factorial of at most 20, the largest that an int64 holds.
package handler

const most = 20

func Handle(event map[string]any) any {
	n := int64(10)
	if given, ok := event["n"].(float64); ok && given >= 0 {
		n = int64(min(given, most))
	}
	factorial := int64(1)
	for factor := int64(2); factor <= n; factor++ {
		factorial *= factor
	}
	return map[string]any{"n": n, "factorial": factorial}
}

package pkg

func Fn(event map[string]any) any { return map[string]any{"double": event["n"].(float64) * 2} }

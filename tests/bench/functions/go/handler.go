package handler

func Handle(event map[string]any) any {
	name, found := event["name"].(string)
	if !found {
		name = "world"
	}
	return map[string]any{"message": "Hello, " + name + "!"}
}

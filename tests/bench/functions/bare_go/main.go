// What a user would write without sless: net/http and encoding/json.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
)

func hello(response http.ResponseWriter, request *http.Request) {
	var event map[string]any
	if request.Body != nil {
		json.NewDecoder(request.Body).Decode(&event)
	}
	name, found := event["name"].(string)
	if !found {
		name = "world"
	}
	response.Header().Set("Content-Type", "application/json")
	json.NewEncoder(response).Encode(map[string]any{"message": "Hello, " + name + "!"})
}

func main() {
	http.HandleFunc("/", hello)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}

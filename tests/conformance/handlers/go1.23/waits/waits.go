// Package waits has slow calls. `gate` is a file: the handler continues when it exists.
package waits

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"syscall"
	"time"
)

func init() { fmt.Println("imported") }

type Event struct {
	Gate  string `json:"gate"`
	Name  string `json:"name"`
	Count int    `json:"count"`
	Times int    `json:"times"`
	Code  int    `json:"code"`
}

func waitGate(gate string) {
	for !isOpen(gate) {
		time.Sleep(5 * time.Millisecond)
	}
}

func isOpen(gate string) bool {
	_, err := os.Stat(gate)
	return err == nil
}

// Pause waits for the gate, or until the call is cancelled.
func Pause(ctx context.Context, event Event) (any, error) {
	fmt.Println("started", event.Name)
	for event.Gate != "" && !isOpen(event.Gate) {
		select {
		case <-ctx.Done():
			fmt.Println("cancelled")
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	fmt.Println("finished", event.Name)
	return map[string]any{"name": event.Name}, nil
}

// Block waits for the gate and ignores cancellation.
func Block(event Event) any {
	fmt.Println("started", event.Name)
	if event.Gate != "" {
		waitGate(event.Gate)
	}
	fmt.Println("finished", event.Name)
	return map[string]any{"name": event.Name}
}

// Eat takes more and more memory, if asked to.
func Eat(event map[string]any) any {
	kept := [][]byte{}
	for event["much"] == true {
		kept = append(kept, []byte(strings.Repeat("x", 1<<20)))
		time.Sleep(2 * time.Millisecond)
	}
	return map[string]any{"kept": len(kept)}
}

func rest(event Event, yield func(string) bool) {
	for index := 0; index < max(event.Count, 1); index++ {
		if !yield(strings.Repeat("second", max(event.Times, 1))) {
			return
		}
	}
}

// Gated is a stream that waits for the gate after its first chunk.
func Gated(event Event) iter.Seq[string] {
	return func(yield func(string) bool) {
		defer fmt.Println("closed")
		if yield("first") {
			waitGate(event.Gate)
			rest(event, yield)
		}
	}
}

// GatedAsync is the same, and ends when the caller leaves.
func GatedAsync(ctx context.Context, event Event) iter.Seq[string] {
	return func(yield func(string) bool) {
		defer fmt.Println("closed")
		if !yield("first") {
			return
		}
		for !isOpen(event.Gate) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
		rest(event, yield)
	}
}

// Die ends the process without running exit handlers.
func Die(event Event) { syscall.Exit(event.Code) }

func bodyOf(ctx context.Context) []byte {
	return ctx.Value("sless").(map[string]any)["http"].(map[string]any)["body"].([]byte)
}

func Mirror(ctx context.Context) any { return bodyOf(ctx) }

// Sse is an event stream that waits for the gate after its first event.
func Sse(event Event) any {
	events := func(yield func(string) bool) {
		if yield("data: first\n\n") {
			waitGate(event.Gate)
			yield("data: second\n\n")
		}
	}
	return map[string]any{
		"statusCode": 200, "headers": map[string]any{"Content-Type": "text/event-stream"}, "body": iter.Seq[string](events),
	}
}

func Size(ctx context.Context) any {
	body := bodyOf(ctx)
	sum := 0
	for _, value := range body[:1000] {
		sum += int(value)
	}
	return map[string]any{"size": len(body), "sum": sum}
}

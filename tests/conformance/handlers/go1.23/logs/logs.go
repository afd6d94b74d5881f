// Package logs has every way to write to stdout and stderr, by name.
package logs

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

var writers = map[string]func(ctx context.Context){
	"print":              func(context.Context) { fmt.Println("one"); fmt.Fprintln(os.Stdout, "two") },
	"error_stream":       func(context.Context) { fmt.Fprintln(os.Stderr, "warning") },
	"partial":            func(context.Context) { fmt.Print("no newline") },
	"many_lines":         func(context.Context) { fmt.Println("a\n\nb") },
	"crlf":               func(context.Context) { fmt.Print("windows\r\nline\r\n") },
	"ansi":               func(context.Context) { fmt.Println("\x1b[1;31mred\x1b[0m and \x1b]0;window\x07title\x1b[K plain") },
	"unicode":            func(context.Context) { fmt.Println("Grüße 日本 🎉") },
	"json_text":          func(context.Context) { fmt.Println(`{"level": "info", "quote": "\""}`) },
	"control_characters": func(context.Context) { fmt.Println("tab\there \x01 end") },
	"long_line":          func(context.Context) { fmt.Println(strings.Repeat("x", 20_000) + "\nafter") },
	"invalid_utf8":       func(context.Context) { fmt.Print("bad \xff byte\n") },
	"child": func(context.Context) {
		command := exec.Command("echo", "from a child")
		command.Stdout = os.Stdout
		if err := command.Run(); err != nil {
			panic(err)
		}
	},
	"raw_descriptor": func(context.Context) {
		syscall.Write(1, []byte("raw out\n"))
		syscall.Write(2, []byte("raw err\n"))
	},
	"later": func(context.Context) {
		go func() {
			time.Sleep(50 * time.Millisecond)
			fmt.Println("from a timer")
		}()
	},
	// Go only
	"raw_rest": func(context.Context) { syscall.Write(1, []byte("raw without newline")) },
	"log":      func(context.Context) { log.SetFlags(0); log.Print("by log") },
	"slog":     func(context.Context) { slog.New(slog.NewTextHandler(os.Stderr, noTime)).Info("by slog", "n", 1) },
	"println":  func(context.Context) { println("built in", 1) },
	"writer":   func(ctx context.Context) { fmt.Fprintln(ctx.Value("sless.stdout").(io.Writer), "by the call's writer") },
	"goroutines": func(context.Context) {
		var group sync.WaitGroup
		for index := 0; index < 3; index++ {
			group.Add(1)
			go func() { defer group.Done(); fmt.Println("from a goroutine") }()
		}
		group.Wait()
	},
	"order": func(context.Context) {
		for index := 0; index < 20; index++ {
			syscall.Write(1, []byte(fmt.Sprintln("raw", index)))
			fmt.Println("print", index)
		}
	},
	"split_character": func(context.Context) { fmt.Print("\xc3"); fmt.Print("\xbc\n") },
	"endless_line": func(context.Context) {
		for index := 0; index < 40; index++ {
			fmt.Print(strings.Repeat("x", 5000))
		}
		fmt.Print("\nafter\n")
	},
}

var noTime = &slog.HandlerOptions{ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
	if attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}}

func Write(ctx context.Context, event map[string]any) any {
	writers[event["kind"].(string)](ctx)
	return "done"
}

// Flood writes `count` lines of 100 characters.
func Flood(event map[string]any) any {
	for index := 0; index < int(event["count"].(float64)); index++ {
		fmt.Printf("%0100d\n", index)
	}
	return "done"
}

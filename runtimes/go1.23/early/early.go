// Package early runs before any of the user's packages is initialised: settings, working directory, captured output. A generated file
// in each of those packages imports it, so that Go initialises it first.
package early

import (
	"os"
	"runtime/debug"
	"syscall"
	"time"
)

const (
	exitNoHandler        = 1
	exitWrongEnvironment = 2

	lifelinePause = 50 * time.Millisecond
)

// Config holds the settings of this process.
var Config Settings

// imported is set once all of the user's packages have been initialised.
var imported bool

func init() {
	Config = takeSettings()
	if Config.LifelineFD >= 0 {
		watchLifeline(Config.LifelineFD)
	}
	if err := os.Chdir(Config.CodeDir); err != nil {
		Refuse("SLESS_CODE_DIR cannot be entered: " + err.Error())
	}
	os.Setenv("PWD", Config.CodeDir)
	limitMemory(Config.MemoryMB)
	if Config.Mode != ModeCheck {
		startCapture()
	}
	hookExit(onExit)
}

// limitMemory makes the garbage collector work harder before the process is killed for using too much memory.
func limitMemory(memoryMB int) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(memoryMB) << 20 * 85 / 100)
	}
}

// Imported marks the user's packages as initialised.
func Imported() { imported = true }

// Refuse ends the process because its environment is wrong.
func Refuse(message string) {
	writeAll(realStderr, []byte(message+"\n"))
	syscall.Exit(exitWrongEnvironment)
}

// RefuseHandler ends the process because its handler cannot be called.
func RefuseHandler(message string) {
	if Config.Mode == ModeCheck {
		writeAll(realStderr, []byte(message+"\n"))
	} else {
		Write(ProcessScope, Stderr, []byte(message+"\n"))
	}
	if Config.Mode == ModeJob {
		Failed(message, "ImportError", 500).Report()
	}
	End(exitNoHandler)
}

// End flushes all output and ends the process.
func End(code int) {
	FlushAll()
	syscall.Exit(code)
}

// onExit runs when the user's code calls os.Exit.
func onExit(code int) {
	if !imported {
		RefuseHandler("entrypoint " + Config.Entrypoint + ": the code exited with code " + itoa(code) + " while it was imported")
	}
	if Config.Mode == ModeJob {
		FlushAll()
		Failed("function exited with code "+itoa(code), "Exit", 500).Report()
		End(1)
	}
	FlushAll()
}

// watchLifeline kills the process group, including what the handler started, when the pipe closes.
func watchLifeline(fd int) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		Refuse("SLESS_LIFELINE_FD " + itoa(fd) + " cannot be read: " + err.Error())
	}
	syscall.CloseOnExec(fd)
	go func() {
		buffer := make([]byte, 64)
		for {
			n, err := syscall.Read(fd, buffer)
			if err == syscall.EINTR || (err == nil && n > 0) {
				continue
			}
			if err == syscall.EAGAIN { // another process that shares the pipe made it non-blocking
				time.Sleep(lifelinePause)
				continue
			}
			syscall.Kill(0, syscall.SIGKILL)
		}
	}()
}

package early

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Mode selects what the process does.
type Mode string

const (
	ModeServer Mode = "server"
	ModeJob    Mode = "job"
	ModeCheck  Mode = "check"
)

// sockaddr_un holds 107 bytes.
const maxSocketPathBytes = 100

// Removed from the handler's environment.
var privateNames = []string{
	"SLESS_MODE", "SLESS_CODE_DIR", "SLESS_DEPS_DIR", "SLESS_SOCKET", "SLESS_ADDRESS", "SLESS_PORT", "SLESS_CONCURRENCY", "SLESS_GRACE_SEC",
	"SLESS_EVENT_FORMAT", "SLESS_LIFELINE_FD", "SLESS_EVENT", "SLESS_EVENT_FILE", "SLESS_INVOCATION_ID", "SLESS_REQUEST_ID", "SLESS_TRIGGER", "SLESS_RESULT_FILE",
}

// Settings come from the environment. TimeoutSec 0: no limit; LifelineFD -1: none; Socket "": listen on a port.
type Settings struct {
	Mode                                         Mode
	CodeDir, Entrypoint, Socket, Address         string
	FunctionName, Namespace                      string
	Port, Version, MemoryMB                      int
	TimeoutSec, Concurrency, GraceSec            int
	LifelineFD                                   int
	EventFormat                                  string
	EventText                                    string
	InvocationID, RequestID, Trigger, ResultFile string
}

// takeSettings reads the environment once and removes the runtime's own names from it. It ends the process when one is wrong.
func takeSettings() Settings {
	const most = int(^uint(0) >> 1)
	settings := Settings{
		Mode:         Mode(choiceOf("SLESS_MODE", string(ModeServer), string(ModeJob), string(ModeCheck))),
		CodeDir:      codeDirOf(),
		Entrypoint:   textOf("SLESS_ENTRYPOINT", "handler.Handle"),
		Socket:       socketOf(),
		Address:      textOf("SLESS_ADDRESS", "0.0.0.0"),
		FunctionName: textOf("SLESS_FUNCTION_NAME", "function"),
		Namespace:    os.Getenv("SLESS_NAMESPACE"),
		Port:         integerOf("SLESS_PORT", 8080, 0, 65535),
		Version:      integerOf("SLESS_VERSION", 0, 0, most),
		MemoryMB:     integerOf("SLESS_MEMORY_MB", 128, 1, most),
		TimeoutSec:   integerOf("SLESS_TIMEOUT_SEC", 0, 0, most),
		Concurrency:  integerOf("SLESS_CONCURRENCY", 50, 1, most),
		GraceSec:     integerOf("SLESS_GRACE_SEC", 10, 0, 1<<20),
		LifelineFD:   integerOf("SLESS_LIFELINE_FD", -1, 0, 1<<20),
		EventFormat:  choiceOf("SLESS_EVENT_FORMAT", "sless", "aws-http-v1", "aws-http-v2"),
		InvocationID: os.Getenv("SLESS_INVOCATION_ID"),
		RequestID:    os.Getenv("SLESS_REQUEST_ID"),
		Trigger:      textOf("SLESS_TRIGGER", "job"),
		ResultFile:   os.Getenv("SLESS_RESULT_FILE"),
	}
	if settings.Mode == ModeJob {
		settings.EventText = eventTextOf()
	}
	for _, name := range privateNames {
		os.Unsetenv(name)
	}
	return settings
}

func itoa(number int) string { return strconv.Itoa(number) }

func textOf(name, fallback string) string {
	if text := os.Getenv(name); text != "" {
		return text
	}
	return fallback
}

func integerOf(name string, fallback, least, most int) int {
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < least || number > most || strings.HasPrefix(text, "+") {
		Refuse(name + " must be an integer from " + itoa(least) + " to " + itoa(most) + ", not " + strconv.Quote(text))
	}
	return number
}

// choiceOf returns the value of a variable that must be one of `choices`; the first when unset.
func choiceOf(name string, choices ...string) string {
	text := textOf(name, choices[0])
	for _, choice := range choices {
		if text == choice {
			return text
		}
	}
	Refuse(name + " must be one of " + strings.Join(choices, ", ") + ", not " + strconv.Quote(text))
	return ""
}

func codeDirOf() string {
	folder, err := filepath.Abs(textOf("SLESS_CODE_DIR", "/app/function"))
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(folder); err == nil && info.IsDir() {
			return folder
		}
	}
	Refuse("SLESS_CODE_DIR must be a folder, " + folder + " is not")
	return ""
}

func socketOf() string {
	path := os.Getenv("SLESS_SOCKET")
	if len(path) > maxSocketPathBytes {
		Refuse("SLESS_SOCKET is longer than " + itoa(maxSocketPathBytes) + " bytes: " + path)
	}
	return path
}

func eventTextOf() string {
	path := os.Getenv("SLESS_EVENT_FILE")
	if path == "" {
		if text, found := os.LookupEnv("SLESS_EVENT"); found {
			return text
		}
		return "{}"
	}
	text, err := os.ReadFile(path)
	if err != nil {
		Refuse("SLESS_EVENT_FILE cannot be read: " + err.Error())
	}
	return string(text)
}

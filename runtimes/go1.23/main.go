// Package runtime runs one handler of a user's: as a server, for one event, or not at all (check).
package runtime

import (
	"sless.internal/runtime/early"
)

// Main runs `handler`, a function of the user's package, as the environment asks; it does not return.
func Main(handler any) {
	invoke, err := handlerOf(handler)
	if err != nil {
		early.RefuseHandler("entrypoint " + early.Config.Entrypoint + ": " + err.Error())
	}
	early.Imported()
	switch early.Config.Mode {
	case early.ModeCheck:
		early.End(0)
	case early.ModeJob:
		runJob(invoke)
	default:
		serve(invoke)
	}
}

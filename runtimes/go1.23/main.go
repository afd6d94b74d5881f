// Package runtime runs a user's handler as a server, for one event, or only checks that it can be called.
package runtime

import (
	"sless.internal/runtime/early"
)

// Main runs `handler`, a function of the user's package, in the mode that the environment sets. It does not return.
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

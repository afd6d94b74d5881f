package runtime

import (
	"cmp"
	"encoding/json"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"sless.internal/runtime/early"
)

// collector collects a job's streamed answer.
type collector struct{ body []byte }

func (c *collector) start(int, []header) bool { return true }

func (c *collector) write(piece []byte) bool {
	c.body = append(c.body, piece...)
	return true
}

func (c *collector) finish()       {}
func (c *collector) breakOff()     {}
func (c *collector) abandon(*call) {}

// runJob calls the handler with the event from the environment, writes the outcome and ends the process.
func runJob(invoke invoker) {
	signal.Ignore(syscall.SIGTERM) // let the call finish; the sender decides how long it waits
	config := &early.Config
	id := config.InvocationID
	if id == "" {
		id = newID()
	}
	req := &request{method: "POST", rawPath: "/", fullPath: "/", version: "1.1", id: id, requestID: config.RequestID, trigger: config.Trigger}
	if req.requestID == "" {
		req.requestID = id
	}
	if config.TimeoutSec > 0 {
		req.deadline = time.Now().Add(time.Duration(config.TimeoutSec) * time.Second)
	}
	req.contentType, req.body = jsonType, []byte(config.EventText)
	if !json.Valid(req.body) {
		req.body, _ = json.Marshal(map[string]string{"body": config.EventText})
	}
	one := newCall(req)
	one.gone, one.close = func() bool { return false }, func() {}
	one.scope = early.Begin(id)
	outcome := one.outcome(invoke)
	one.scope.End()
	outcome.Report()
	if outcome.OK {
		early.End(0)
	}
	early.End(1)
}

func (c *call) outcome(invoke invoker) *early.Outcome {
	made := c.run(invoke)
	if made.stream != nil {
		collected := &collector{}
		begun := false
		if err := c.pump(made, collected, &begun); err != nil {
			c.logError(err)
			return early.Failed(messageOf(err), typeOf(err), 500)
		}
		if !begun {
			c.begin(made, collected, false)
		}
		made.body = collected.body
	}
	outcome := &early.Outcome{OK: made.failed == nil, Status: made.status, Headers: pairsOfHeaders(made.headers), Body: made.body}
	if made.failed != nil {
		outcome.Error, outcome.ErrorType = messageOf(made.failed), cmp.Or(faultOf(made.failed), typeOf(made.failed))
	}
	return outcome
}

func pairsOfHeaders(headers []header) [][2]string {
	pairs := make([][2]string, 0, len(headers))
	for _, field := range headers {
		pairs = append(pairs, [2]string{strings.ToLower(field.name), latin1Decoded(field.value)})
	}
	return pairs
}

package runtime

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"sless.internal/runtime/early"
)

// request describes a call before its handler runs.
type request struct {
	method, rawPath, queryText, fullPath string
	version                              string // HTTP version
	headers                              []header
	body                                 []byte
	contentType                          string
	clientIP                             string
	overHTTP                             bool
	id, requestID, trigger               string
	deadline                             time.Time // zero when there is none
}

type header struct{ name, value string }

// States of a call; it leaves stateRunning once.
const (
	stateRunning int32 = iota
	stateAnswering
	stateOverdue // the deadline has passed; the caller no longer waits
)

// call is one call of the handler.
type call struct {
	*request
	ctx       context.Context
	cancel    context.CancelFunc
	scope     *early.Scope
	state     atomicState
	streaming atomic.Bool // the handler has returned a stream
	gone      func() bool // whether the caller has left
	close     func()      // aborts the caller's connection
}

type atomicState struct{ value int32 }

func (s *atomicState) move(to int32) bool {
	return atomic.CompareAndSwapInt32(&s.value, stateRunning, to)
}
func (s *atomicState) is(state int32) bool { return atomic.LoadInt32(&s.value) == state }

func newID() string {
	var bytes [16]byte
	rand.Read(bytes[:])
	return hex.EncodeToString(bytes[:])
}

func newCall(req *request) *call {
	c := &call{request: req}
	base := context.Background()
	if req.deadline.IsZero() {
		c.ctx, c.cancel = context.WithCancel(base)
	} else {
		c.ctx, c.cancel = context.WithDeadline(base, req.deadline)
	}
	return c
}

// run calls the handler and returns the answer and the handler's result.
func (c *call) run(invoke invoker) (reply *answer) {
	defer func() {
		if thrown := recover(); thrown != nil {
			reply = c.failure(panicked(thrown, debug.Stack()))
		}
	}()
	event, err := c.event()
	var value any
	if err == nil {
		value, err = invoke(&callContext{Context: c.ctx, call: c}, event)
	}
	if err == nil {
		reply, err = answerOf(value)
	}
	if err != nil {
		return c.failure(err)
	}
	return reply
}

// failure logs an error and returns its answer.
func (c *call) failure(err error) *answer {
	c.logError(err)
	return failureAnswer(err, c.requestID)
}

func (c *call) logError(err error) {
	if _, isCallers := err.(*badRequest); !isCallers {
		early.Write(c.scope, early.Stderr, []byte(strings.TrimRight(traceOf(err), "\n")+"\n"))
	}
}

package runtime

import (
	"sync"
	"time"
)

const (
	sweepPause = 20 * time.Millisecond
	// sless closes a call at its deadline. The runtime does so this much later, for callers other than sless: if it were first, sless
	// would see a broken connection instead of answering 504.
	closeGrace = time.Second
)

// calls tracks the calls of this process: concurrency limit, queue, deadlines.
type calls struct {
	mu          sync.Mutex
	concurrency int
	running     map[*call]struct{}
	overdue     map[*call]struct{}
	abandoned   map[*call]struct{} // streams whose caller has left; a Read or an iterator may wait for ever
	waiting     []*waiter
	sweeping    bool
}

type waiter struct {
	call *call
	turn chan struct{}
}

func newCalls(concurrency int) *calls {
	return &calls{concurrency: concurrency, running: map[*call]struct{}{}, overdue: map[*call]struct{}{}, abandoned: map[*call]struct{}{}}
}

// admit waits until the call may run; false when its deadline passes or its caller leaves first.
func (c *calls) admit(one *call) bool {
	c.mu.Lock()
	if !c.sweeping {
		c.sweeping = true
		go c.sweep()
	}
	if len(c.running) < c.concurrency {
		c.running[one] = struct{}{}
		c.mu.Unlock()
		return true
	}
	wait := &waiter{one, make(chan struct{})}
	c.waiting = append(c.waiting, wait)
	c.mu.Unlock()
	select {
	case <-wait.turn:
		return true
	case <-one.ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for index, other := range c.waiting {
		if other == wait {
			c.waiting = append(c.waiting[:index], c.waiting[index+1:]...)
			return false
		}
	}
	c.leave(one) // it got a slot at that moment
	return false
}

// done frees the call's slot.
func (c *calls) done(one *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(one)
}

func (c *calls) leave(one *call) {
	delete(c.running, one)
	delete(c.overdue, one)
	delete(c.abandoned, one)
	for len(c.waiting) > 0 && len(c.running) < c.concurrency {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.running[next.call] = struct{}{}
		close(next.turn)
	}
}

func (c *calls) counts() (active, overdue int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.running) + len(c.overdue) + len(c.abandoned), len(c.overdue)
}

// sweep ends calls whose caller has left or whose deadline has passed, until no calls are left. One goroutine serves all calls,
// because most end before its first pass.
func (c *calls) sweep() {
	for {
		time.Sleep(sweepPause)
		if !c.look(time.Now()) {
			return
		}
	}
}

func (c *calls) look(now time.Time) bool {
	c.mu.Lock()
	if len(c.running)+len(c.overdue)+len(c.waiting) == 0 {
		c.sweeping = false
		c.mu.Unlock()
		return false
	}
	all := make([]*call, 0, len(c.running)+len(c.overdue)+len(c.waiting))
	for one := range c.running {
		all = append(all, one)
	}
	for one := range c.overdue {
		all = append(all, one)
	}
	for _, wait := range c.waiting {
		all = append(all, wait.call)
	}
	c.mu.Unlock()
	for _, one := range all {
		c.lookAt(one, now)
	}
	return true
}

func (c *calls) lookAt(one *call, now time.Time) {
	if one.gone() {
		one.cancel()
		if one.streaming.Load() {
			c.abandon(one)
		}
	}
	if one.deadline.IsZero() || now.Before(one.deadline) {
		return
	}
	if now.Sub(one.deadline) > closeGrace && !one.state.is(stateAnswering) {
		one.close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, runs := c.running[one]; runs && one.state.move(stateOverdue) {
		// The handler cannot be stopped; its slot is freed, so that the process can still serve.
		c.leave(one)
		c.overdue[one] = struct{}{}
	}
}

// abandon frees the slot of a stream without a reader.
func (c *calls) abandon(one *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, runs := c.running[one]; runs {
		c.leave(one)
		c.abandoned[one] = struct{}{}
	}
}

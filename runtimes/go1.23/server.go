package runtime

import (
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sless.internal/runtime/early"
)

const (
	drainPause = 5 * time.Millisecond
)

type flag struct{ value int32 }

func (f *flag) set()                { atomic.StoreInt32(&f.value, 1) }
func (f *flag) is(value int32) bool { return atomic.LoadInt32(&f.value) == value }

type server struct {
	invoke      invoker
	calls       *calls
	draining    flag
	mu          sync.Mutex
	connections map[*connection]struct{}
	exhaustion  exhaustion
}

// serve answers calls until SIGTERM, then drains and ends the process.
func serve(invoke invoker) {
	s := &server{invoke: invoke, calls: newCalls(early.Config.Concurrency), connections: map[*connection]struct{}{}}
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM)
	listener := listen()
	go s.accept(listener)
	<-ending
	s.drain(listener)
	early.End(0)
}

func listen() net.Listener {
	network, address := "tcp", net.JoinHostPort(early.Config.Address, textOf(early.Config.Port))
	if path := early.Config.Socket; path != "" {
		network, address = "unix", path
		// Remove the socket that a killed process left at this path.
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			os.Remove(path)
		}
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		reason := err.Error()
		if at := strings.LastIndex(reason, ": "); at >= 0 {
			reason = reason[at+2:]
		}
		early.Refuse("cannot listen on " + address + ": " + reason)
	}
	return listener
}

func (s *server) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			if s.draining.is(1) {
				return
			}
			time.Sleep(drainPause) // out of descriptors: wait for some to be freed
			continue
		}
		c := newConnection(s, conn)
		s.mu.Lock()
		s.connections[c] = struct{}{}
		s.mu.Unlock()
		go c.serve()
	}
}

func (s *server) forget(c *connection) {
	s.mu.Lock()
	delete(s.connections, c)
	s.mu.Unlock()
}

// drain stops accepting and waits for running calls, at most SLESS_GRACE_SEC.
func (s *server) drain(listener net.Listener) {
	s.draining.set()
	listener.Close()
	for end := time.Now().Add(time.Duration(early.Config.GraceSec) * time.Second); time.Now().Before(end); time.Sleep(drainPause) {
		s.mu.Lock()
		left := make([]*connection, 0, len(s.connections))
		for c := range s.connections {
			left = append(left, c)
		}
		s.mu.Unlock()
		if len(left) == 0 {
			return
		}
		for _, c := range left {
			c.endIfIdle()
		}
	}
}

// call runs one call and sends its answer.
func (s *server) call(req *request, reply *responder) {
	one := newCall(req)
	one.gone, one.close = reply.conn.gone, func() { reply.conn.Close() }
	defer one.cancel()
	if !s.calls.admit(one) {
		reply.abandon(one)
		return
	}
	one.scope = early.Begin(req.id)
	var once sync.Once
	finish := func() {
		once.Do(func() {
			one.scope.End()
			s.calls.done(one)
		})
	}
	completed := false
	defer func() { // runtime.Goexit in a handler ends this goroutine
		finish()
		if !completed {
			reply.breakOff()
		}
	}()
	made := one.run(s.invoke)
	if made.stream != nil {
		one.streaming.Store(true)
		s.exhaustion.note(one.sendStream(made, reply, finish))
	} else {
		s.exhaustion.note(made.failed)
		one.deliver(made, reply, finish)
	}
	completed = true
}

// sender receives a streamed answer.
type sender interface {
	start(status int, headers []header) bool
	write(piece []byte) bool
	finish()
	breakOff()
	abandon(one *call)
}

// deliver sends a complete answer, unless the caller has stopped waiting. It ends the call before sending, so that a caller with an
// answer never finds its call still running.
func (c *call) deliver(made *answer, reply *responder, finish func()) {
	wanted := c.mayAnswer()
	finish()
	if wanted {
		reply.send(made)
	} else {
		reply.abandon(c)
	}
}

// mayAnswer reports whether the caller still waits for the answer.
func (c *call) mayAnswer() bool {
	return (c.deadline.IsZero() || time.Now().Before(c.deadline)) && c.state.move(stateAnswering)
}

// sendStream sends a streamed answer. An error before the first chunk becomes an error answer; a later one aborts the connection. It
// returns the error.
func (c *call) sendStream(made *answer, reply *responder, finish func()) error {
	begun := false
	err := c.pump(made, reply, &begun)
	switch {
	case err != nil && !begun:
		c.deliver(c.failure(err), reply, finish)
	case err != nil:
		c.logError(err)
		finish()
		reply.breakOff()
	case !begun && !c.begin(made, reply, false):
		finish()
		reply.finish()
	default:
		finish()
		reply.finish()
	}
	return err
}

// pump sends the chunks of a stream; `begun` is set once the head has been sent.
func (c *call) pump(made *answer, reply sender, begun *bool) error {
	return made.stream.pump(c.ctx, func(piece []byte, isText bool) bool {
		if !*begun {
			if len(piece) == 0 {
				return true
			}
			*begun = true
			if !c.begin(made, reply, isText) {
				return false
			}
		}
		if !reply.write(piece) || c.ctx.Err() != nil && c.gone() {
			c.cancel()
			return false
		}
		return true
	})
}

// begin sends the head of a stream; false when no body should follow.
func (c *call) begin(made *answer, reply sender, isText bool) bool {
	if !c.mayAnswer() {
		reply.abandon(c)
		return false
	}
	if !made.has("content-type") {
		kind := binaryType
		if isText {
			kind = textType
		}
		made.add("Content-Type", kind)
	}
	return reply.start(made.status, made.headers)
}

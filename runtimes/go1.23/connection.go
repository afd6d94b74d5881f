package runtime

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"sless.internal/runtime/early"
)

// States of a connection.
const (
	connIdle int32 = iota
	connBusy
	connEnded
)

// connection serves the requests of one caller in order.
type connection struct {
	net.Conn
	server *server
	reader reader
	raw    syscall.RawConn
	state  int32
	out    []byte // buffer for the answer's head, reused
}

func newConnection(server *server, conn net.Conn) *connection {
	c := &connection{Conn: conn, server: server, reader: reader{Reader: bufio.NewReaderSize(conn, 4096)}}
	if source, ok := conn.(syscall.Conn); ok {
		c.raw, _ = source.SyscallConn()
	}
	return c
}

// endIfIdle closes the connection unless a request is in progress.
func (c *connection) endIfIdle() {
	if atomic.CompareAndSwapInt32(&c.state, connIdle, connEnded) {
		c.Close()
	}
}

func (c *connection) serve() {
	defer c.server.forget(c)
	defer c.Close()
	for {
		if c.server.draining.is(1) {
			return
		}
		if _, err := c.reader.Peek(1); err != nil {
			return
		}
		if !atomic.CompareAndSwapInt32(&c.state, connIdle, connBusy) {
			return
		}
		if !c.serveOne() {
			return
		}
		atomic.StoreInt32(&c.state, connIdle)
	}
}

// serveOne serves a request; false when the connection must be closed.
func (c *connection) serveOne() bool {
	found, err := c.reader.head()
	if err != nil {
		return c.refuse(err)
	}
	if found.expectContinue && found.length != 0 && c.reader.Buffered() == 0 {
		if _, err := c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return false
		}
	}
	body, err := c.reader.body(found)
	if err != nil {
		return c.refuse(err)
	}
	reply := &responder{conn: c, isHead: found.method == "HEAD", version: found.version, close: found.close}
	if valueOf(found.headers, "x-sless-control") == "1" {
		c.server.control(found.target, reply)
	} else {
		c.server.call(c.requestOf(found, body), reply)
	}
	return !reply.close && !reply.broken
}

func (c *connection) refuse(err error) bool {
	if err == errMalformed {
		reply := &responder{conn: c, close: true, version: "1.1"}
		reply.send(&answer{status: 400, hasBody: true})
	}
	return false
}

// requestOf parses a request's head.
func (c *connection) requestOf(found *head, body []byte) *request {
	req := &request{method: found.method, version: found.version, headers: found.headers, body: body, trigger: "http", overHTTP: true}
	req.rawPath, req.queryText, _ = strings.Cut(found.target, "?")
	req.fullPath = req.rawPath
	for _, field := range found.headers {
		switch strings.ToLower(field.name) {
		case "content-type":
			req.contentType = field.value
		case "x-request-id":
			req.requestID = field.value
		case "x-sless-invocation-id":
			req.id = field.value
		case "x-sless-trigger":
			req.trigger, req.overHTTP = field.value, field.value == "http"
		case "x-sless-full-path":
			req.fullPath = field.value
		case "x-sless-client-ip":
			req.clientIP = field.value
		case "x-sless-timeout-ms":
			if ms, err := strconv.ParseUint(field.value, 10, 40); err == nil {
				req.deadline = time.Now().Add(time.Duration(ms) * time.Millisecond)
			}
		}
	}
	if req.id == "" {
		req.id = newID()
	}
	if req.requestID == "" {
		req.requestID = req.id
	}
	if req.clientIP == "" {
		if address, ok := c.RemoteAddr().(*net.TCPAddr); ok {
			req.clientIP = address.IP.String()
		}
	}
	return req
}

// gone reports whether the caller has closed its side.
func (c *connection) gone() bool {
	if c.raw == nil {
		return false
	}
	left := false
	err := c.raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		left = n == 0 && err == nil || err == syscall.ECONNRESET
	})
	return left || err != nil
}

func valueOf(headers []header, name string) string {
	for _, field := range headers {
		if len(field.name) == len(name) && strings.EqualFold(field.name, name) {
			return field.value
		}
	}
	return ""
}

// control answers a control request.
func (s *server) control(target string, reply *responder) {
	path, query, _ := strings.Cut(target, "?")
	made := &answer{status: 200, hasBody: true}
	made.add("Content-Type", jsonType)
	switch path {
	case "/_sless/health":
		active, overdue := s.calls.counts()
		made.body = []byte(`{"active": ` + textOf(active) + `, "overdue": ` + textOf(overdue) + `, "pid": ` + textOf(syscall.Getpid()) + `}`)
	case "/_sless/logs":
		after, _ := lastValues(pairsOf(query))["after"].(string)
		seq, _ := strconv.Atoi(after)
		made.body = early.LinesAfter(seq)
	default:
		made.status = 404
		made.body = append(early.AppendQuoted([]byte(`{"error": `), "unknown control request "+path, true), '}')
	}
	reply.send(made)
}

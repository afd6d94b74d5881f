package runtime

import (
	"net"
	"strconv"
	"time"
)

// Limit of the buffer that a connection keeps for its next answer.
const maxKeptBytes = 64 * 1024

var reasons = map[int]string{
	200: "OK", 201: "Created", 202: "Accepted", 203: "Non-Authoritative Information", 204: "No Content", 205: "Reset Content",
	206: "Partial Content", 207: "Multi-Status", 300: "Multiple Choices", 301: "Moved Permanently", 302: "Found", 303: "See Other",
	304: "Not Modified", 307: "Temporary Redirect", 308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized",
	402: "Payment Required", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable", 408: "Request Timeout",
	409: "Conflict", 410: "Gone", 411: "Length Required", 412: "Precondition Failed", 413: "Content Too Large", 415: "Unsupported Media Type",
	416: "Range Not Satisfiable", 418: "I'm a teapot", 422: "Unprocessable Content", 423: "Locked", 424: "Failed Dependency",
	425: "Too Early", 426: "Upgrade Required", 428: "Precondition Required", 429: "Too Many Requests",
	431: "Request Header Fields Too Large", 451: "Unavailable For Legal Reasons", 500: "Internal Server Error", 501: "Not Implemented",
	502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
}

// responder sends the answer of one request: `send` for a complete one, or `start`, `write`… and `finish`.
type responder struct {
	conn                  *connection
	isHead, close, broken bool
	version               string
	chunked               bool
}

// send sends a complete answer in one write.
func (r *responder) send(reply *answer) {
	out := r.headOf(reply.status, reply.headers)
	if reply.hasBody {
		out = strconv.AppendInt(append(out, "Content-Length: "...), int64(len(reply.body)), 10)
		out = append(out, "\r\n"...)
	}
	out = append(out, "\r\n"...)
	r.conn.out = out[:0]
	if r.isHead || len(reply.body) == 0 {
		r.put(out)
	} else if len(reply.body) <= 4096 {
		out = append(out, reply.body...)
		r.conn.out = out[:0]
		r.put(out)
	} else {
		buffers := net.Buffers{out, reply.body}
		if _, err := buffers.WriteTo(r.conn.Conn); err != nil {
			r.broken = true
		}
	}
}

func (r *responder) headOf(status int, headers []header) []byte {
	if r.conn.server.draining.is(1) {
		r.close = true
	}
	out := strconv.AppendInt(append(r.conn.out[:0], "HTTP/1.1 "...), int64(status), 10)
	reason := reasons[status]
	if reason == "" {
		reason = "Unknown"
	}
	out = append(append(append(out, ' '), reason...), "\r\n"...)
	for _, field := range headers {
		out = append(append(append(append(out, field.name...), ": "...), field.value...), "\r\n"...)
	}
	if r.close {
		return append(out, "Connection: close\r\n"...)
	}
	return append(out, "Connection: keep-alive\r\n"...)
}

// start sends the head of a streamed answer and reports whether a body should follow.
func (r *responder) start(status int, headers []header) bool {
	r.chunked = r.version != "1.0"
	if !r.chunked {
		r.close = true
	}
	out := r.headOf(status, headers)
	if r.chunked {
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	out = append(out, "\r\n"...)
	r.conn.out = out[:0]
	r.put(out)
	return !r.isHead && !r.broken
}

// write sends one chunk at once; false when the caller has left.
func (r *responder) write(piece []byte) bool {
	if len(piece) == 0 {
		return !r.broken
	}
	if !r.chunked {
		return r.put(piece)
	}
	out := strconv.AppendInt(r.conn.out[:0], int64(len(piece)), 16)
	out = append(append(append(out, "\r\n"...), piece...), "\r\n"...)
	if len(out) <= maxKeptBytes {
		r.conn.out = out[:0]
	}
	return r.put(out)
}

func (r *responder) finish() {
	if r.chunked && !r.isHead {
		r.put([]byte("0\r\n\r\n"))
	}
}

// breakOff closes the connection before the answer is complete, so that the caller notices.
func (r *responder) breakOff() {
	r.broken = true
	r.conn.Close()
}

// abandon closes the connection of an overdue call, later than sless would, so that sless can answer 504.
func (r *responder) abandon(one *call) {
	for end := one.deadline.Add(closeGrace); !one.deadline.IsZero() && time.Now().Before(end) && !one.gone(); {
		time.Sleep(sweepPause)
	}
	r.breakOff()
}

func (r *responder) put(out []byte) bool {
	if r.broken {
		return false
	}
	if _, err := r.conn.Write(out); err != nil {
		r.broken = true
	}
	return !r.broken
}

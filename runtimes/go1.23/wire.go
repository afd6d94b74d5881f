package runtime

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

const (
	maxHeadBytes  = 128 * 1024 // sless limits heads to 64 KB, then adds its own headers
	maxChunkLine  = 4096
	firstBodyPart = 1 << 20
)

// errMalformed: the input is not an HTTP/1.x request, or is ambiguous.
var errMalformed = errors.New("malformed request")

// head is a request without its body; `length` -1 means chunked.
type head struct {
	method, target, version string
	headers                 []header
	length                  int64
	close, expectContinue   bool
}

// reader reads requests from one connection.
type reader struct {
	*bufio.Reader
	long []byte // a line that is longer than the buffer
}

// line returns the next line without its CRLF; valid until the next call.
func (r *reader) line(most int) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		r.long = append(r.long[:0], line...)
		for err == bufio.ErrBufferFull && len(r.long) <= most {
			line, err = r.ReadSlice('\n')
			r.long = append(r.long, line...)
		}
		line = r.long
	}
	if err != nil && err != bufio.ErrBufferFull {
		return nil, err
	}
	if len(line) > most || len(line) < 2 || line[len(line)-2] != '\r' {
		return nil, errMalformed
	}
	return line[:len(line)-2], nil
}

// head reads a request's head. Errors: errMalformed, errors of the connection.
func (r *reader) head() (*head, error) {
	line, err := r.line(maxHeadBytes)
	if err != nil {
		return nil, err
	}
	found, err := requestLineOf(line)
	if err != nil {
		return nil, err
	}
	left := maxHeadBytes - len(line)
	for {
		line, err := r.line(left)
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			return found, found.takeFraming()
		}
		left -= len(line)
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || !isToken(string(line[:colon])) || bytes.IndexByte(line, '\r') >= 0 || bytes.IndexByte(line, 0) >= 0 {
			return nil, errMalformed
		}
		found.headers = append(found.headers, header{string(line[:colon]), string(bytes.Trim(line[colon+1:], " \t"))})
	}
}

func requestLineOf(line []byte) (*head, error) {
	parts := strings.Split(string(line), " ")
	if len(parts) != 3 || !isToken(parts[0]) || parts[1] == "" || strings.ContainsAny(parts[1], "\x00\r\t") {
		return nil, errMalformed
	}
	version := strings.TrimPrefix(parts[2], "HTTP/")
	if version != "1.1" && version != "1.0" || len(version) == len(parts[2]) {
		return nil, errMalformed
	}
	return &head{method: parts[0], target: parts[1], version: version, close: version == "1.0"}, nil
}

// takeFraming determines the body's length. An ambiguous request is malformed.
func (h *head) takeFraming() error {
	lengthText, chunked := "", false
	for _, field := range h.headers {
		switch len(field.name) {
		case len("connection"):
			if strings.EqualFold(field.name, "connection") && strings.Contains(strings.ToLower(field.value), "close") {
				h.close = true
			}
		case len("expect"):
			if strings.EqualFold(field.name, "expect") && strings.EqualFold(field.value, "100-continue") {
				h.expectContinue = h.version == "1.1"
			}
		case len("content-length"):
			if strings.EqualFold(field.name, "content-length") {
				if lengthText != "" && lengthText != field.value || field.value == "" {
					return errMalformed
				}
				lengthText = field.value
			}
		case len("transfer-encoding"):
			if strings.EqualFold(field.name, "transfer-encoding") {
				if chunked || h.version == "1.0" || !strings.EqualFold(field.value, "chunked") {
					return errMalformed
				}
				chunked = true
			}
		}
	}
	if chunked {
		h.length = -1
		if lengthText != "" {
			return errMalformed
		}
		return nil
	}
	length, err := digits(lengthText, 10, 18)
	h.length = length
	return err
}

// digits parses a number without sign; "" is 0.
func digits(text string, base int64, most int) (int64, error) {
	if len(text) > most {
		return 0, errMalformed
	}
	number := int64(0)
	for at := 0; at < len(text); at++ {
		value := int64(hexValue(text[at]))
		if value < 0 || value >= base {
			return 0, errMalformed
		}
		number = number*base + value
	}
	return number, nil
}

// body reads the body that belongs to head `h`.
func (r *reader) body(h *head) ([]byte, error) {
	if h.length >= 0 {
		return r.appendExactly(nil, h.length)
	}
	var body []byte
	for {
		line, err := r.line(maxChunkLine)
		if err != nil {
			return nil, err
		}
		sizeText, _, _ := strings.Cut(string(line), ";")
		sizeText = strings.TrimRight(sizeText, " \t")
		size, err := digits(sizeText, 16, 15)
		if err != nil || sizeText == "" {
			return nil, errMalformed
		}
		if size == 0 {
			return body, r.trailers()
		}
		if body, err = r.appendExactly(body, size); err != nil {
			return nil, err
		}
		if line, err := r.line(2); err != nil || len(line) > 0 {
			return nil, errMalformed
		}
	}
}

func (r *reader) trailers() error {
	for left := maxHeadBytes; ; {
		line, err := r.line(left)
		if err != nil || len(line) == 0 {
			return err
		}
		left -= len(line)
	}
}

// appendExactly reads `count` bytes; memory grows with the received bytes, not with the announced length.
func (r *reader) appendExactly(body []byte, count int64) ([]byte, error) {
	for count > 0 {
		part := count
		if part > firstBodyPart {
			part = firstBodyPart
		}
		if int64(len(body)) > part && int64(len(body)) < count {
			part = int64(len(body))
		}
		start := len(body)
		body = append(body, make([]byte, part)...)
		if _, err := io.ReadFull(r, body[start:]); err != nil {
			return nil, err
		}
		count -= part
	}
	return body, nil
}

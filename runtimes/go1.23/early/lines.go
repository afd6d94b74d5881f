package early

import (
	"bytes"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

const (
	maxLineBytes = 16 * 1024
	maxCallBytes = 256 * 1024
	cutMark      = " …[cut]"
	callCutMark  = "[log over 256 KB: the rest of this call is dropped]"
)

var streamNames = [2]string{"stdout", "stderr"}

// output is the lock for writing lines, so that the ring and stdout have the same order.
var output sync.Mutex

var stdoutGone bool

// Write logs a piece of output; complete lines at once.
func Write(scope *Scope, stream Stream, piece []byte) {
	output.Lock()
	defer output.Unlock()
	for {
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			break
		}
		scope.takeLine(stream, piece[:end])
		piece = piece[end+1:]
	}
	scope.takeRest(stream, piece)
	if scope.ended {
		scope.flush()
	}
}

func (s *Scope) takeLine(stream Stream, line []byte) {
	if s.overflow[stream] {
		s.overflow[stream] = false
		return
	}
	if rest := s.partial[stream]; len(rest) > 0 {
		line = append(rest, line...)
		s.partial[stream] = nil
	}
	s.emit(stream, line)
}

// takeRest keeps an unfinished line. One that grows too long is logged cut, and its rest is skipped.
func (s *Scope) takeRest(stream Stream, rest []byte) {
	if len(rest) == 0 || s.overflow[stream] {
		return
	}
	s.partial[stream] = append(s.partial[stream], rest...)
	if len(s.partial[stream]) > 4*maxLineBytes {
		s.emit(stream, s.partial[stream])
		s.partial[stream] = nil
		s.overflow[stream] = true
	}
}

func (s *Scope) flush() {
	for stream, rest := range s.partial {
		s.partial[stream] = nil
		if len(rest) > 0 {
			s.emit(Stream(stream), rest)
		}
	}
}

func (s *Scope) emit(stream Stream, raw []byte) {
	if s.sizeBytes > maxCallBytes {
		return
	}
	text := cutLine(string(withoutANSI(bytes.TrimSuffix(raw, []byte{'\r'}))))
	if s.ID != "" {
		s.sizeBytes += len(text) + 1
		if s.sizeBytes > maxCallBytes {
			text = callCutMark
		}
	}
	line := make([]byte, 0, len(text)+120)
	line = append(append(line, `{"seq": `...), itoa(lines.last+1)...)
	line = time.Now().UTC().AppendFormat(append(line, `, "time": "`...), "2006-01-02T15:04:05.000Z")
	line = append(append(line, `", "stream": "`...), streamNames[stream]...)
	line = AppendQuoted(append(line, `", "id": `...), s.ID, false)
	line = append(AppendQuoted(append(line, `, "text": `...), text, false), '}')
	lines.keep(line)
	writeStdout(append(line, '\n'))
}

func cutLine(text string) string {
	if len(text) <= maxLineBytes {
		return text
	}
	end := maxLineBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cutMark
}

// writeStdout writes to the process's real stdout. It waits for a slow reader; a closed stdout is not an error.
func writeStdout(text []byte) {
	if !stdoutGone && !writeAll(realStdout, text) {
		stdoutGone = true
	}
}

func writeAll(fd int, text []byte) bool {
	for len(text) > 0 {
		n, err := syscall.Write(fd, text)
		switch {
		case err == syscall.EAGAIN:
			time.Sleep(time.Millisecond)
		case err == syscall.EINTR:
		case err != nil:
			return false
		default:
			text = text[n:]
		}
	}
	return true
}

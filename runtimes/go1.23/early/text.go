package early

import (
	"bytes"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendQuoted appends a JSON string. Invalid UTF-8 becomes U+FFFD; `ascii` escapes non-ASCII characters.
func AppendQuoted(text []byte, value string, ascii bool) []byte {
	text = append(text, '"')
	start := 0
	for at := 0; at < len(value); {
		if c := value[at]; c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
				at++
				continue
			}
			text = appendEscape(append(text, value[start:at]...), c)
			at++
			start = at
			continue
		}
		r, size := utf8.DecodeRuneInString(value[at:])
		if ascii || (r == utf8.RuneError && size == 1) {
			text = append(text, value[start:at]...)
			if ascii {
				text = appendUnits(text, r)
			} else {
				text = append(text, "\ufffd"...)
			}
			start = at + size
		}
		at += size
	}
	return append(append(text, value[start:]...), '"')
}

func appendEscape(text []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(text, '\\', c)
	case '\n':
		return append(text, `\n`...)
	case '\r':
		return append(text, `\r`...)
	case '\t':
		return append(text, `\t`...)
	case '\b':
		return append(text, `\b`...)
	case '\f':
		return append(text, `\f`...)
	case 0x7f:
		return append(text, c)
	}
	return append(text, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendUnits appends a rune as \u escapes, as a surrogate pair above the first plane.
func appendUnits(text []byte, r rune) []byte {
	units := []rune{r}
	if r > 0xffff {
		r -= 0x10000
		units = []rune{0xd800 + r>>10, 0xdc00 + r&0x3ff}
	}
	for _, unit := range units {
		text = append(text, '\\', 'u', hexDigits[unit>>12&15], hexDigits[unit>>8&15], hexDigits[unit>>4&15], hexDigits[unit&15])
	}
	return text
}

// withoutANSI removes terminal sequences: OSC up to BEL or ST, CSI, other escapes.
func withoutANSI(line []byte) []byte {
	if bytes.IndexByte(line, 0x1b) < 0 {
		return line
	}
	kept := make([]byte, 0, len(line))
	for at := 0; at < len(line); {
		if line[at] != 0x1b {
			kept = append(kept, line[at])
			at++
			continue
		}
		at = escapeEnd(line, at+1)
	}
	return kept
}

// escapeEnd returns the end of the sequence whose ESC precedes `at`.
func escapeEnd(line []byte, at int) int {
	if at >= len(line) {
		return at
	}
	switch line[at] {
	case ']':
		for at++; at < len(line); at++ {
			if line[at] == 0x07 {
				return at + 1
			}
			if line[at] == 0x1b {
				if at+1 < len(line) && line[at+1] == '\\' {
					return at + 2
				}
				return at
			}
		}
		return at
	case '[':
		at = skip(line, at+1, '0', '?')
		at = skip(line, at, ' ', '/')
		return skipOne(line, at, '@', '~')
	}
	return skipOne(line, skip(line, at, ' ', '/'), '0', '~')
}

func skip(line []byte, at int, from, to byte) int {
	for at < len(line) && line[at] >= from && line[at] <= to {
		at++
	}
	return at
}

func skipOne(line []byte, at int, from, to byte) int {
	if at < len(line) && line[at] >= from && line[at] <= to {
		at++
	}
	return at
}

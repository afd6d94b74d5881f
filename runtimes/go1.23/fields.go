package runtime

import (
	"bytes"
	"strings"
)

// pair is a field of a query or a form; the value of an uploaded file is a map.
type pair struct {
	name  string
	value any
}

func lastValues(pairs []pair) map[string]any {
	fields := make(map[string]any, len(pairs))
	for _, field := range pairs {
		fields[field.name] = field.value
	}
	return fields
}

func allValues(pairs []pair) map[string][]any {
	fields := make(map[string][]any, len(pairs))
	for _, field := range pairs {
		fields[field.name] = append(fields[field.name], field.value)
	}
	return fields
}

// pairsOf decodes the fields of a query.
func pairsOf(text string) []pair { return pairsIn(text, utf8Text) }

// pairsIn decodes the fields of a form body; `decode` converts the bytes of its charset to text.
func pairsIn(text string, decode func([]byte) string) []pair {
	var pairs []pair
	for len(text) > 0 {
		var part string
		part, text, _ = strings.Cut(text, "&")
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		pairs = append(pairs, pair{decode(percentBytes(name, true)), decode(percentBytes(value, true))})
	}
	return pairs
}

// unquoted decodes percent-encoding; invalid sequences stay or become U+FFFD.
func unquoted(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	return utf8Text(percentBytes(text, false))
}

func percentBytes(text string, plusIsSpace bool) []byte {
	decoded := make([]byte, 0, len(text))
	for at := 0; at < len(text); at++ {
		if text[at] == '%' && at+2 < len(text) {
			high, low := hexValue(text[at+1]), hexValue(text[at+2])
			if high >= 0 && low >= 0 {
				decoded = append(decoded, byte(high<<4|low))
				at += 2
				continue
			}
		}
		if plusIsSpace && text[at] == '+' {
			decoded = append(decoded, ' ')
		} else {
			decoded = append(decoded, text[at])
		}
	}
	return decoded
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// multipart/form-data (RFC 7578), held in memory: sless limits the body's size.

func boundaryOf(contentType string) string { return parametersOf(contentType)["boundary"] }

// parametersOf returns the values of `; name=value`, `; name="value"` and `; name*=UTF-8'en'value` in a header, by lower-case name.
func parametersOf(header string) map[string]string {
	parameters := map[string]string{}
	_, rest, _ := strings.Cut(header, ";")
	for rest != "" {
		var name, value string
		name, rest, _ = strings.Cut(rest, "=")
		rest = strings.TrimLeft(rest, " \t")
		if strings.HasPrefix(rest, `"`) {
			value, rest = quotedText(rest[1:])
			_, rest, _ = strings.Cut(rest, ";")
		} else {
			value, rest, _ = strings.Cut(rest, ";")
			value = strings.TrimSpace(value)
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if plain, extended := strings.CutSuffix(name, "*"); extended {
			name, value = plain, unquoted(value[strings.LastIndexByte(value, '\'')+1:])
		}
		parameters[name] = value
	}
	return parameters
}

// quotedText returns the text up to the closing quote, in which browsers write `"` as %22, and the rest.
func quotedText(text string) (string, string) {
	content := make([]byte, 0, len(text))
	for at := 0; at < len(text); at++ {
		switch {
		case text[at] == '"':
			return unescaped(content), text[at+1:]
		case text[at] == '\\' && at+1 < len(text) && (text[at+1] == '"' || text[at+1] == '\\'):
			at++
		}
		content = append(content, text[at])
	}
	return unescaped(content), ""
}

func unescaped(content []byte) string { return strings.ReplaceAll(string(content), "%22", `"`) }

func multipartPairs(body []byte, boundary string) []pair {
	delimiter := []byte("\r\n--" + boundary)
	rest := append([]byte("\r\n"), body...) // so that the first delimiter looks like the others
	var pairs []pair
	at := bytes.Index(rest, delimiter)
	for at >= 0 {
		rest = rest[at+len(delimiter):]
		at = bytes.Index(rest, delimiter)
		lineEnd := bytes.Index(rest, []byte("\r\n"))
		if at < 0 || lineEnd < 0 || lineEnd > at {
			break
		}
		if lineEnd+2 > at {
			continue // nothing between two delimiters
		}
		if field, found := fieldOf(rest[lineEnd+2 : at]); found {
			pairs = append(pairs, field)
		}
	}
	return pairs
}

// fieldOf returns a part: text, or a map of filename, content_type and body for a file.
func fieldOf(part []byte) (pair, bool) {
	head, content, found := bytes.Cut(part, []byte("\r\n\r\n"))
	if !found {
		return pair{}, false
	}
	disposition, contentType := "", binaryType
	for _, line := range strings.Split(string(head), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "content-disposition":
			disposition = value
		case "content-type":
			contentType = strings.TrimSpace(value)
		}
	}
	parameters := parametersOf(strings.ToValidUTF8(disposition, "\ufffd"))
	name, isNamed := parameters["name"]
	if !isNamed {
		return pair{}, false
	}
	filename, isFile := parameters["filename"]
	if !isFile {
		return pair{name, charsetOf(contentType)(content)}, true
	}
	file := map[string]any{"filename": filename, "content_type": contentType}
	return pair{name, bodyFields(content, file)}, true
}

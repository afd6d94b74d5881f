package early

import (
	"encoding/base64"
	"os"
	"unicode/utf8"
)

// Outcome is the result of a job.
type Outcome struct {
	OK               bool
	Error, ErrorType string
	Status           int
	Headers          [][2]string
	Body             []byte
}

// Failed returns the outcome of a job that failed before it had an answer.
func Failed(message, errorType string, status int) *Outcome {
	requestID := Config.RequestID
	if requestID == "" {
		requestID = Config.InvocationID
	}
	return &Outcome{
		Error: message, ErrorType: errorType, Status: status, Body: ErrorBody(message, errorType, requestID),
		Headers: [][2]string{{"content-type", "application/json"}, {"x-sless-function-error", "1"}},
	}
}

// RefusalBody returns the JSON body that reports a call that the platform refused.
func RefusalBody(message, code, requestID string) []byte {
	body := AppendQuoted([]byte(`{"error": `), message, true)
	body = AppendQuoted(append(body, `, "code": `...), code, true)
	return append(AppendQuoted(append(body, `, "details": [], "request_id": `...), requestID, true), '}')
}

// ErrorBody returns the JSON body that reports an error of the handler.
func ErrorBody(message, errorType, requestID string) []byte {
	body := AppendQuoted([]byte(`{"error": `), message, true)
	body = AppendQuoted(append(body, `, "type": `...), errorType, true)
	return append(AppendQuoted(append(body, `, "request_id": `...), requestID, true), '}')
}

// Report writes the outcome to the result file, atomically, or as the last line of stdout.
func (o *Outcome) Report() {
	text := o.json()
	path := Config.ResultFile
	if path == "" {
		output.Lock()
		writeStdout(append(append([]byte(`{"sless_outcome": `), text...), "}\n"...))
		output.Unlock()
		return
	}
	part := path + ".part"
	err := os.WriteFile(part, text, 0o600)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		writeAll(realStderr, []byte("cannot write the outcome: "+err.Error()+"\n"))
	}
}

func (o *Outcome) json() []byte {
	text := []byte(`{"ok": `)
	if o.OK {
		text = append(text, `true, "error": null, "error_type": null`...)
	} else {
		text = AppendQuoted(append(text, `false, "error": `...), o.Error, false)
		text = AppendQuoted(append(text, `, "error_type": `...), o.ErrorType, false)
	}
	text = append(append(text, `, "status": `...), itoa(o.Status)...)
	text = append(text, `, "headers": [`...)
	for index, header := range o.Headers {
		if index > 0 {
			text = append(text, ", "...)
		}
		text = AppendQuoted(append(text, '['), header[0], false)
		text = append(AppendQuoted(append(text, ", "...), header[1], false), ']')
	}
	if utf8.Valid(o.Body) {
		text = AppendQuoted(append(text, `], "body": `...), string(o.Body), false)
	} else {
		text = AppendQuoted(append(text, `], "body_base64": `...), base64.StdEncoding.EncodeToString(o.Body), false)
	}
	return append(text, '}')
}

package early

const (
	maxRingBytes   = 4 * 1024 * 1024
	linesPerAnswer = 1000
)

// ring keeps the newest lines for GET /_sless/logs, as JSON texts.
type ring struct {
	texts     [][]byte
	head      int // the oldest kept
	sizeBytes int
	last      int // seq of the newest
	dropped   int
}

var lines ring

// keep adds line `last + 1` and drops the oldest lines beyond 4 MB.
func (r *ring) keep(text []byte) {
	r.last++
	r.texts = append(r.texts, text[:len(text):len(text)])
	r.sizeBytes += len(text)
	for r.sizeBytes > maxRingBytes {
		r.sizeBytes -= len(r.texts[r.head])
		r.texts[r.head] = nil
		r.head++
		r.dropped++
	}
	if r.head > 1024 && r.head*2 > len(r.texts) {
		r.texts = append([][]byte(nil), r.texts[r.head:]...)
		r.head = 0
	}
}

// LinesAfter returns the lines with `seq > after` as a JSON answer.
func LinesAfter(after int) []byte {
	Drain()
	output.Lock()
	defer output.Unlock()
	oldest := lines.last - (len(lines.texts) - lines.head) + 1
	start := lines.head
	if after >= oldest {
		start += after - oldest + 1
	}
	if start > len(lines.texts) {
		start = len(lines.texts)
	}
	end := start + linesPerAnswer
	if end > len(lines.texts) {
		end = len(lines.texts)
	}
	answer := []byte(`{"lines": [`)
	for index, text := range lines.texts[start:end] {
		if index > 0 {
			answer = append(answer, ", "...)
		}
		answer = append(answer, text...)
	}
	answer = append(append(answer, `], "last": `...), itoa(lines.last)...)
	return append(append(append(answer, `, "dropped": `...), itoa(lines.dropped)...), '}')
}

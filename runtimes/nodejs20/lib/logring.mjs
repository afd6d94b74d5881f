// The newest log lines as JSON texts, for GET /_sless/logs.

const RING_MAX_BYTES = 4 * 1024 * 1024;
const LINES_PER_ANSWER = 1000;

let texts = [];
let head = 0; // index of the oldest line in `texts`; what is before it is gone
let sizeBytes = 0;
let lastSeq = 0;
let droppedLines = 0;

/** The number that the next line will carry. */
export function nextSeq() {
  return lastSeq + 1;
}

/** Keeps the JSON text of line `nextSeq()`, letting go of the oldest ones over 4 MB. */
export function keepLine(text) {
  lastSeq += 1;
  texts.push(text);
  sizeBytes += Buffer.byteLength(text);
  while (sizeBytes > RING_MAX_BYTES) {
    sizeBytes -= Buffer.byteLength(texts[head]);
    texts[head] = null;
    head += 1;
    droppedLines += 1;
  }
  if (head > 1024 && head * 2 > texts.length) {
    texts = texts.slice(head);
    head = 0;
  }
}

/** The JSON answer for lines with `seq > after`. */
export function linesAfter(after) {
  const oldestSeq = lastSeq - (texts.length - head) + 1;
  const start = head + Math.max(0, after + 1 - oldestSeq);
  const lines = texts.slice(start, start + LINES_PER_ANSWER);
  return `{"lines": [${lines.join(', ')}], "last": ${lastSeq}, "dropped": ${droppedLines}}`;
}

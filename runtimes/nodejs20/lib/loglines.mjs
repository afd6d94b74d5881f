// Turns output into log lines: one JSON object per line, kept in the ring and written to the process's real stdout.
import fs from 'node:fs';
import { StringDecoder } from 'node:string_decoder';

const RING_MAX_BYTES = 4 * 1024 * 1024;
const LINES_PER_ANSWER = 1000;
const LINE_MAX_BYTES = 16 * 1024;
const CALL_MAX_BYTES = 256 * 1024;
const CUT_MARK = ' …[cut]';
const CALL_CUT_MARK = '[log over 256 KB: the rest of this call is dropped]';
const EAGAIN_PAUSE_MS = 1;
// OSC (ended by BEL or ST), CSI, other escapes; then the 8-bit CSI
const ANSI = /\u001b(?:\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\[[0-?]*[ -/]*[@-~]|[ -/]*[0-Z\\^-~])|\u009b[0-?]*[ -/]*[@-~]/g;

// The originals, before capture.mjs replaces them.
const writeSync = fs.writeSync;
const REAL_STDOUT_FD = 1;
let stdoutOpen = true;

/** Output of one call, or of the process outside calls. */
export class LogScope {
  constructor(id) {
    this.id = id;
    this.sizeBytes = 0;
    this.ended = false;
    this.stdout = null;
    this.stderr = null;
  }
}

/** Lines outside any call. */
export const processScope = new LogScope('');

/** Logs a piece of output (string or bytes) of `stream` ("stdout" | "stderr"); complete lines at once. */
export function writeText(scope, stream, piece) {
  let partial = scope[stream];
  if (partial === null && typeof piece === 'string' && isOneLine(piece)) {
    emitLine(scope, stream, piece.slice(0, -1));
    return;
  }
  if (partial === null) partial = scope[stream] = { text: '', overflow: false, decoder: null };
  addPiece(scope, stream, partial, typeof piece === 'string' ? piece : decoded(partial, piece));
  if (scope.ended) flushPartial(scope, stream);
  else if (partial.text === '' && !partial.overflow && partial.decoder === null) scope[stream] = null;
}

function isOneLine(text) {
  return text.length > 0 && text.indexOf('\n') === text.length - 1;
}

function decoded(partial, bytes) {
  partial.decoder ??= new StringDecoder('utf8');
  return partial.decoder.write(bytes);
}

function addPiece(scope, stream, partial, piece) {
  let start = 0;
  for (let end = piece.indexOf('\n'); end >= 0; end = piece.indexOf('\n', start)) {
    const text = partial.text + piece.slice(start, end);
    if (!partial.overflow) emitLine(scope, stream, text);
    partial.text = '';
    partial.overflow = false;
    start = end + 1;
  }
  if (!partial.overflow) partial.text += piece.slice(start);
  // A line that never ends must not fill the memory: log it cut and skip the rest.
  if (partial.text.length > 4 * LINE_MAX_BYTES) {
    emitLine(scope, stream, partial.text);
    partial.text = '';
    partial.overflow = true;
  }
}

function flushPartial(scope, stream) {
  const partial = scope[stream];
  if (partial === null) return;
  scope[stream] = null;
  const text = partial.text + (partial.decoder?.end() ?? '');
  if (text !== '' && !partial.overflow) emitLine(scope, stream, text);
}

/** Logs the scope's unfinished line. */
export function flushScope(scope) {
  flushPartial(scope, 'stdout');
  flushPartial(scope, 'stderr');
}

/** Ends the scope of a call; later writes are logged at once. */
export function endScope(scope) {
  scope.ended = true;
  if (scope.stdout !== null || scope.stderr !== null) flushScope(scope);
}

function emitLine(scope, stream, raw) {
  if (scope.sizeBytes > CALL_MAX_BYTES) return;
  let text = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
  if (text.includes('\u001b') || text.includes('\u009b')) text = text.replace(ANSI, '');
  text = cutLine(text);
  if (scope.id !== '') {
    scope.sizeBytes += Buffer.byteLength(text) + 1;
    if (scope.sizeBytes > CALL_MAX_BYTES) text = CALL_CUT_MARK;
  }
  const ending = `"id": ${JSON.stringify(scope.id)}, "text": ${JSON.stringify(text)}}`;
  const line = `{"seq": ${lastSeq + 1}, "time": "${new Date().toISOString()}", "stream": "${stream}", ${ending}`;
  keepLine(line);
  writeStdout(`${line}\n`);
}

function cutLine(text) {
  if (text.length * 3 <= LINE_MAX_BYTES || Buffer.byteLength(text) <= LINE_MAX_BYTES) return text;
  const bytes = Buffer.from(text);
  let end = LINE_MAX_BYTES;
  while ((bytes[end] & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end) + CUT_MARK;
}

/** Writes to the process's real stdout, completely and in order. Waits for a slow reader; a closed stdout is not an error. */
export function writeStdout(text) {
  let rest = Buffer.from(text);
  while (stdoutOpen && rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(REAL_STDOUT_FD, rest));
    } catch (error) {
      if (error.code === 'EAGAIN') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, EAGAIN_PAUSE_MS);
      else stdoutOpen = false; // EPIPE, EBADF: no reader; the ring still has the lines
    }
  }
}

// The ring of the newest lines, for GET /_sless/logs.
let texts = [];
let head = 0; // index of the oldest line in `texts`
let sizeBytes = 0;
let lastSeq = 0;
let droppedLines = 0;

/** Keeps the JSON text of line `lastSeq + 1`; drops the oldest lines beyond 4 MB. */
function keepLine(text) {
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

/** JSON answer with the lines whose `seq > after`. */
export function linesAfter(after) {
  const oldestSeq = lastSeq - (texts.length - head) + 1;
  const start = head + Math.max(0, after + 1 - oldestSeq);
  const lines = texts.slice(start, start + LINES_PER_ANSWER);
  return `{"lines": [${lines.join(', ')}], "last": ${lastSeq}, "dropped": ${droppedLines}}`;
}

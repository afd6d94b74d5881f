// Captures everything that JavaScript writes to stdout and stderr as log lines of the call that wrote it.
// The descriptors stay unchanged, because Node cannot redirect its own: output of native code is not captured.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { Writable } from 'node:stream';

import { captureChildren } from './children.mjs';
import { bytesOf } from './json.mjs';
import { flushScope, processScope, writeText } from './loglines.mjs';
import { currentCall } from './scope.mjs';

/** Captures output of the running code; `stream` is "stdout" or "stderr". */
export function writeCaptured(stream, piece) {
  writeText(currentCall()?.log ?? processScope, stream, piece);
}

function pieceOf(chunk, encoding) {
  if (typeof chunk === 'string') {
    return !encoding || encoding === 'utf8' || encoding === 'utf-8' ? chunk : Buffer.from(chunk, encoding);
  }
  if (ArrayBuffer.isView(chunk)) return bytesOf(chunk);
  throw new TypeError(`a chunk must be a string or bytes, not ${chunk === null ? 'null' : typeof chunk}`);
}

class CapturedStream extends Writable {
  constructor(stream, fd) {
    super({ decodeStrings: false });
    this.fd = fd;
    this.streamName = stream;
    this._isStdio = true; // makes pipe() leave it open
  }

  write(chunk, encoding, callback) {
    const done = typeof encoding === 'function' ? encoding : callback;
    writeCaptured(this.streamName, pieceOf(chunk, typeof encoding === 'string' ? encoding : undefined));
    if (done) process.nextTick(done);
    return true;
  }

  end(chunk, encoding, callback) {
    const done = [chunk, encoding, callback].find((argument) => typeof argument === 'function');
    if (chunk !== undefined && chunk !== null && chunk !== done) this.write(chunk, encoding);
    if (done) process.nextTick(done);
    return this;
  }

  destroy() {
    return this; // the process's output stays open
  }
}

function replaceStream(stream, fd) {
  let captured;
  Object.defineProperty(process, stream, {
    configurable: true,
    enumerable: true,
    get: () => (captured ??= new CapturedStream(stream, fd)), // created on first use
  });
}

function streamOfFd(fd) {
  if (fd === 1) return 'stdout';
  return fd === 2 ? 'stderr' : null;
}

/** The written bytes of fs.write's signatures: (buffer, offset, length), (buffer, {offset, length}), (string, position, encoding). */
function writtenPieceOf(data, second, third) {
  if (typeof data === 'string') return pieceOf(data, typeof third === 'string' ? third : undefined);
  const bytes = pieceOf(data);
  const { offset, length } = typeof second === 'object' && second !== null ? second : { offset: second, length: third };
  const start = typeof offset === 'number' ? offset : 0;
  return bytes.subarray(start, typeof length === 'number' ? start + length : undefined);
}

function captureDescriptors() {
  const { write, writeSync, writeFileSync, appendFileSync } = fs;
  fs.writeSync = (fd, data, ...rest) => {
    const stream = streamOfFd(fd);
    if (stream === null) return writeSync(fd, data, ...rest);
    const piece = writtenPieceOf(data, ...rest);
    writeCaptured(stream, piece);
    return Buffer.byteLength(piece);
  };
  fs.write = (fd, data, ...rest) => {
    const stream = streamOfFd(fd);
    if (stream === null) return write(fd, data, ...rest);
    const piece = writtenPieceOf(data, ...rest);
    writeCaptured(stream, piece);
    process.nextTick(rest.at(-1), null, Buffer.byteLength(piece), data);
    return undefined;
  };
  fs.write[Symbol.for('nodejs.util.promisify.custom')] = (fd, data, ...rest) =>
    new Promise((resolve, reject) => {
      fs.write(fd, data, ...rest, (error, bytesWritten, buffer) => (error ? reject(error) : resolve({ bytesWritten, buffer })));
    });
  for (const [name, original] of Object.entries({ writeFileSync, appendFileSync })) {
    fs[name] = (file, data, options) => {
      const stream = streamOfFd(file);
      if (stream === null) return original(file, data, options);
      return writeCaptured(stream, pieceOf(data, typeof options === 'string' ? options : options?.encoding));
    };
  }
}

/** Starts capturing. Output before this does not become log lines. */
export function captureOutput() {
  replaceStream('stdout', 1);
  replaceStream('stderr', 2);
  captureDescriptors();
  captureChildren(writeCaptured);
  syncBuiltinESMExports(); // for `import { writeSync } from 'node:fs'` and the like
  process.on('exit', () => flushScope(processScope));
}

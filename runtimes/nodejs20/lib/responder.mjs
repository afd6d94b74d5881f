// Sends the answer of one call over HTTP.
import { STATUS_CODES } from 'node:http';

function headOf(status, headers, length) {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n`;
  for (let index = 0; index < headers.length; index += 2) head += `${headers[index]}: ${headers[index + 1]}\r\n`;
  return `${head}Content-Length: ${length}\r\nConnection: keep-alive\r\n\r\n`;
}

/** Receives one complete answer (`send`), or `start`, `write`… and `finish`. */
export class Responder {
  #response;
  #isHead;

  constructor(response, method) {
    this.#response = response;
    this.#isHead = method === 'HEAD';
  }

  /** Whether the caller has left. */
  get closed() {
    return this.#response.destroyed || this.#response.socket?.destroyed === true;
  }

  onClose(listener) {
    this.#response.once('close', listener);
  }

  /** Sends a complete answer; `body` is null for statuses without one. */
  send({ status, headers, body }) {
    const response = this.#response;
    if (body === null) {
      response.writeHead(status, headers);
      response.end();
      return;
    }
    const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length;
    // node:http would encode the head like this text, but a head is Latin-1.
    const sent = length === body.length ? body : Buffer.from(body);
    if (this.#isHead || !response.shouldKeepAlive) {
      response.writeHead(status, [...headers, 'Content-Length', String(length)]);
      response.end(this.#isHead ? undefined : sent);
      return;
    }
    // The common case bypasses writeHead, which would repeat the checks of answer.mjs; ASCII text is sent with its head in one write.
    const head = headOf(status, headers, length);
    const isAscii = length === body.length && typeof body === 'string';
    response._header = isAscii ? head + body : head;
    response.end(isAscii ? undefined : sent);
  }

  /** Sends the head of a streamed answer. Returns whether a body should follow (not for HEAD). */
  start({ status, headers }) {
    this.#response.writeHead(status, headers);
    if (this.#isHead || status === 204 || status === 304) {
      this.#response.end();
      return false;
    }
    this.#response.flushHeaders();
    return true;
  }

  /** Sends a chunk. For a slow caller, returns a promise that resolves when it has caught up or left. */
  write(chunk) {
    const response = this.#response;
    if (response.write(chunk) || this.closed) return undefined;
    return new Promise((resolve) => {
      const done = () => {
        response.off('drain', done);
        response.off('close', done);
        resolve();
      };
      response.on('drain', done);
      response.on('close', done);
    });
  }

  finish() {
    this.#response.end();
  }

  /** Closes the connection before the answer is complete, so that the caller notices. */
  breakOff() {
    this.#response.destroy();
  }
}

// Sends the answer of one call over HTTP.
import { STATUS_CODES } from 'node:http';

function headOf(status, headers, length) {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n`;
  for (let index = 0; index < headers.length; index += 2) head += `${headers[index]}: ${headers[index + 1]}\r\n`;
  return `${head}Content-Length: ${length}\r\nConnection: keep-alive\r\n\r\n`;
}

/** Takes what call.mjs and streaming.mjs give: one whole answer, or start, write… and finish. */
export class Responder {
  #response;
  #isHead;

  constructor(response, method) {
    this.#response = response;
    this.#isHead = method === 'HEAD';
  }

  /** Whether the caller is gone. */
  get closed() {
    return this.#response.destroyed || this.#response.socket?.destroyed === true;
  }

  onClose(listener) {
    this.#response.once('close', listener);
  }

  /** A whole answer; `body` null for the statuses that have none. */
  send({ status, headers, body }) {
    const response = this.#response;
    if (body === null) {
      response.writeHead(status, headers);
      response.end();
      return;
    }
    const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length;
    // node:http would send the head in front of such a text in the text's encoding, and a head is Latin-1.
    const sent = length === body.length ? body : Buffer.from(body);
    if (this.#isHead || !response.shouldKeepAlive) {
      response.writeHead(status, [...headers, 'Content-Length', String(length)]);
      response.end(this.#isHead ? undefined : sent);
      return;
    }
    // The common case past writeHead, which checks again what answer.mjs has checked; ASCII text goes out with its head in one write.
    const head = headOf(status, headers, length);
    const isAscii = length === body.length && typeof body === 'string';
    response._header = isAscii ? head + body : head;
    response.end(isAscii ? undefined : sent);
  }

  /** The head of a streamed answer; returns whether its body is wanted (not for HEAD). */
  start({ status, headers }) {
    this.#response.writeHead(status, headers);
    if (this.#isHead || status === 204 || status === 304) {
      this.#response.end();
      return false;
    }
    this.#response.flushHeaders();
    return true;
  }

  /** Sends a chunk; a promise when the caller is slow, resolved when it has caught up or is gone. */
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

  /** Ends the connection without the end of the answer, so that the caller can tell. */
  breakOff() {
    this.#response.destroy();
  }
}

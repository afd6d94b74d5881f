// Server mode: HTTP/1.1 on a unix socket or a port.
import fs from 'node:fs';
import http from 'node:http';

import { Call, newId } from './call.mjs';
import { Calls } from './calls.mjs';
import { linesAfter } from './loglines.mjs';
import { Responder } from './responder.mjs';
import { WrongEnvironment } from './settings.mjs';

const MAX_HEADER_BYTES = 128 * 1024; // sless limits heads to 64 KB, then adds its own headers
const DRAIN_CHECK_MS = 10;
const NO_BYTES = Buffer.alloc(0);

/**
 * A request that collects its body while it is parsed. node:http's body stream takes a third of the time of a small call and
 * has no benefit here: the event needs the whole body, and sless limits its size.
 */
class Request extends http.IncomingMessage {
  chunks = null;
  whole = false;
  call = null; // set by the reader of the body
  server = null;

  push(chunk) {
    if (chunk === null) {
      this.whole = true;
      if (this.call !== null) this.server.received(this.call, this.#bytes());
      return false;
    }
    if (this.chunks === null) this.chunks = [chunk];
    else this.chunks.push(chunk);
    return true; // never pause the socket
  }

  #bytes() {
    const { chunks } = this;
    if (chunks === null) return NO_BYTES;
    this.chunks = null;
    return chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
  }

  // node:http reads only this header, and parsing all of them is costly; calls read `rawHeaders`.
  get headers() {
    return { expect: findHeader(this.rawHeaders, 'expect') ?? undefined };
  }

  // node:http calls this before it releases a request.
  get readableEnded() {
    return this.whole;
  }

  _dump() {}

  _destroy(error, callback) {
    if (!this.whole && this.call !== null) this.server.brokeOff();
    this.whole = true;
    callback(null); // not an error: there is no call yet
  }
}

/** Value of a header by its lower-case name, or null. */
function findHeader(rawHeaders, name) {
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index].length === name.length && rawHeaders[index].toLowerCase() === name) return rawHeaders[index + 1];
  }
  return null;
}

/** Reads the request's head into the call. */
function readHead(call, request) {
  const { url, rawHeaders } = request;
  const question = url.indexOf('?');
  call.overHttp = true;
  call.method = request.method;
  call.rawPath = question < 0 ? url : url.slice(0, question);
  call.queryText = question < 0 ? '' : url.slice(question + 1);
  call.fullPath = call.rawPath;
  call.httpVersion = request.httpVersion;
  call.rawHeaders = rawHeaders;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index];
    // Only names with these initials need to be lower-cased.
    const initial = name.charCodeAt(0) | 0x20;
    if (initial === 0x78 || initial === 0x63) readHeader(call, name.toLowerCase(), rawHeaders[index + 1]);
  }
  if (call.clientIp === '') call.clientIp = request.socket.remoteAddress ?? '';
}

function readHeader(call, name, value) {
  switch (name) {
    case 'content-type': call.contentType = value; break;
    case 'x-request-id': if (value) call.requestId = value; break;
    case 'x-sless-trigger': call.trigger = value; call.overHttp = value === 'http'; break;
    case 'x-sless-full-path': call.fullPath = value; break;
    case 'x-sless-client-ip': call.clientIp = value; break;
    case 'x-sless-timeout-ms': if (/^\d+$/.test(value)) call.deadline = performance.now() + Number(value); break;
    default:
  }
}

/** Removes the socket that a killed process left at this path. */
function removeSocket(path) {
  if (fs.lstatSync(path, { throwIfNoEntry: false })?.isSocket()) fs.unlinkSync(path);
}

class Server {
  #calls;
  #http;
  #sockets = new Set();
  #arriving = 0; // requests whose body is not complete yet
  #draining = false;

  constructor(program) {
    this.#calls = new Calls(program, () => this.#sockets.size + 1);
    process.on('exit', () => this.#calls.flushLogs());
    const options = {
      IncomingMessage: Request,
      maxHeaderSize: MAX_HEADER_BYTES,
      requireHostHeader: false,
      // sless handles time-outs: a runtime that closes an idle connection may do so just as a call arrives on it.
      keepAliveTimeout: 0,
      headersTimeout: 0,
      requestTimeout: 0,
      keepAlive: true, // TCP keep-alive detects lost peers
      noDelay: true,
    };
    this.#http = http.createServer(options, (request, response) => this.#accept(request, response));
    this.#http.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  /** Resolves when the server listens. */
  listen({ socket, address, port }) {
    if (socket) removeSocket(socket);
    return new Promise((resolve, reject) => {
      const place = socket ? { path: socket } : { port, host: address };
      this.#http.once('error', (error) => reject(new WrongEnvironment(`cannot listen on ${socket ?? `port ${port} of ${address}`}: ${error.message}`)));
      this.#http.listen({ ...place, backlog: 1024 }, resolve);
    });
  }

  #accept(request, response) {
    response.sendDate = false;
    if (this.#draining) response.shouldKeepAlive = false;
    if (request.httpVersionMajor !== 1) { // the parser reads a request line without a version as HTTP/0.9
      response.shouldKeepAlive = false;
      response.writeHead(400, ['Content-Length', '0']).end();
      return;
    }
    if (findHeader(request.rawHeaders, 'x-sless-control') === '1') {
      this.#control(request, response);
      return;
    }
    const id = findHeader(request.rawHeaders, 'x-sless-invocation-id') || newId();
    request.call = new Call(id, new Responder(response, request.method), this.#calls);
    request.server = this;
    this.#arriving += 1;
    readHead(request.call, request);
  }

  /** Called when the body of a request is complete. */
  received(call, body) {
    this.#arriving -= 1;
    call.body = body;
    this.#calls.admit(call);
  }

  /** Called when a request ends before its body is complete. */
  brokeOff() {
    this.#arriving -= 1;
  }

  #control(request, response) {
    const url = new URL(request.url, 'http://runtime');
    let status = 200;
    let body;
    if (url.pathname === '/_sless/health') {
      body = JSON.stringify({ active: this.#calls.active, overdue: this.#calls.overdue, pid: process.pid });
    } else if (url.pathname === '/_sless/logs') {
      body = linesAfter(Math.max(0, Math.trunc(Number(url.searchParams.get('after')) || 0)));
    } else {
      status = 404;
      body = JSON.stringify({ error: `unknown control request ${url.pathname}` });
    }
    response.writeHead(status, ['Content-Type', 'application/json', 'Content-Length', String(Buffer.byteLength(body))]);
    response.end(body);
  }

  /** Stops accepting and waits for running calls, at most that long; resolves when their answers are sent. */
  async drain(graceMs) {
    this.#draining = true;
    this.#http.close(); // also closes idle connections
    for (const socket of this.#sockets) {
      if (socket._httpMessage) socket._httpMessage.shouldKeepAlive = false; // the answer in progress
      else if (socket.bytesRead === 0) socket.destroy(); // node:http treats a connection before its first request as busy
    }
    const end = performance.now() + graceMs;
    while (this.#busy && performance.now() < end) {
      await new Promise((resolve) => {
        setTimeout(resolve, DRAIN_CHECK_MS);
      });
    }
  }

  get #busy() {
    if (this.#calls.active + this.#calls.waiting + this.#arriving > 0) return true;
    for (const socket of this.#sockets) {
      if (socket.writableLength > 0) return true;
    }
    return false;
  }
}

/** Serves until SIGTERM, then drains and exits. */
export async function run(program) {
  const server = new Server(program);
  process.on('SIGTERM', async () => {
    await server.drain(program.settings.graceSec * 1000);
    process.exit(0);
  });
  await server.listen(program.settings);
}

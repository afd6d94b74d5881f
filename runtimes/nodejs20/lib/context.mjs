// The handler's second argument: the context and, for HTTP calls, the request.
import { allValues, lastValues, pairsOf, unquoted } from './fields.mjs';
import { formPairsOf } from './event.mjs';

// Remaining time of a call without a deadline; Lambda's calls always have one.
const UNLIMITED_MS = Number.MAX_SAFE_INTEGER;

const MESSAGE_HEADER = 'x-sless-message';

/** Case-insensitive lookup: `headers['X-Any']`, `headers['x-any']`, `headers.get('X-Any')`. Own keys are in lower case. */
class CallerHeaders {
  get(name) {
    return Object.getOwnPropertyDescriptor(this, String(name).toLowerCase())?.value;
  }

  has(name) {
    return Object.hasOwn(this, String(name).toLowerCase());
  }
}

const METHODS = new Set(['get', 'has']); // a header of such a name must not hide the method

function ownKeyOf(target, name) {
  if (typeof name !== 'string' || METHODS.has(name)) return null;
  const key = name.toLowerCase();
  return Object.hasOwn(target, key) ? key : null;
}

const ANY_CASE = {
  get: (target, name) => (METHODS.has(name) ? CallerHeaders.prototype[name] : target[ownKeyOf(target, name) ?? name]),
  has: (target, name) => ownKeyOf(target, name) !== null || name in target,
};

/** An object with lower-case keys, looked up in any case. */
export function anyCase(headers) {
  return new Proxy(Object.assign(new CallerHeaders(), headers), ANY_CASE);
}

/** [lower-case name, value] pairs of a raw [name, value, …] list, except X-Sless-*. */
export function headerPairs(rawHeaders) {
  const pairs = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index].toLowerCase();
    if (!name.startsWith('x-sless-')) pairs.push([name, rawHeaders[index + 1]]);
  }
  return pairs;
}

/** Headers of a raw [name, value, …] list except X-Sless-*; repeated ones are joined by `separator`, cookies by "; ". */
export function plainHeaders(rawHeaders, separator) {
  const headers = new CallerHeaders();
  for (const [name, value] of headerPairs(rawHeaders)) {
    headers[name] = Object.hasOwn(headers, name) ? headers[name] + (name === 'cookie' ? '; ' : separator) + value : value;
  }
  return headers;
}

/** The request of an HTTP call; attributes are computed on first access. */
export class HttpRequest {
  #call;

  constructor(call) {
    this.#call = call;
    this.method = call.method;
    this.path = unquoted(call.rawPath);
    this.raw_path = call.rawPath;
    this.full_path = call.fullPath;
    this.raw_query = call.queryText;
    this.body = call.body;
    this.client_ip = call.clientIp;
  }

  #once(name, value) {
    Object.defineProperty(this, name, { value, enumerable: true, writable: true, configurable: true });
    return value;
  }

  get headers() {
    return this.#once('headers', new Proxy(plainHeaders(this.#call.rawHeaders, ', '), ANY_CASE));
  }

  get query() {
    return this.#once('query', lastValues(pairsOf(this.#call.queryText)));
  }

  get multi_query() {
    return this.#once('multi_query', allValues(pairsOf(this.#call.queryText)));
  }

  get multi_form() {
    return this.#once('multi_form', allValues(formPairsOf(this.#call)));
  }
}

/** The second argument of a handler, with the names of sless and of AWS Lambda. */
export class Context {
  #call;
  #http;

  constructor(call, settings) {
    this.#call = call;
    this.request_id = call.requestId;
    this.function_name = settings.functionName;
    this.namespace = settings.namespace;
    this.version = settings.version;
    this.trigger = call.trigger;
    this.memory_mb = settings.memoryMb;
    this.timeout_sec = settings.timeoutSec;
    this.callbackWaitsForEmptyEventLoop = true; // Lambda handlers set it; it has no effect here
  }

  get http() {
    if (this.#http === undefined) this.#http = this.#call.overHttp ? new HttpRequest(this.#call) : null;
    return this.#http;
  }

  /** Properties of the AMQP message behind an event call; null for other calls. */
  get message() {
    const { rawHeaders } = this.#call;
    const at = this.trigger === 'event' ? rawHeaders.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === MESSAGE_HEADER) : -1;
    return at < 0 ? null : JSON.parse(rawHeaders[at + 1]);
  }

  /** Milliseconds until the deadline, at least 0. */
  remaining_ms() {
    const { deadline } = this.#call;
    return deadline === null ? UNLIMITED_MS : Math.max(0, Math.round(deadline - performance.now()));
  }

  succeed(value) {
    this.#call.settle(value);
  }

  fail(error) {
    this.#call.fail(error ?? new Error('context.fail was called'));
  }

  done(error, value) {
    if (error) this.#call.fail(error);
    else this.#call.settle(value);
  }

  get aws_request_id() { return this.request_id; }
  get awsRequestId() { return this.request_id; }
  get functionName() { return this.function_name; }
  get function_version() { return String(this.version); }
  get functionVersion() { return String(this.version); }
  get invoked_function_arn() { return `arn:sless:lambda::${this.namespace}:function:${this.function_name}`; }
  get invokedFunctionArn() { return this.invoked_function_arn; }
  get memory_limit_in_mb() { return this.memory_mb; }
  get memoryLimitInMB() { return String(this.memory_mb); }
  get log_group_name() { return `/sless/${this.namespace}/${this.function_name}`; }
  get logGroupName() { return this.log_group_name; }
  get log_stream_name() { return `${this.version}/${process.pid}`; }
  get logStreamName() { return this.log_stream_name; }
  get identity() { return undefined; }
  get clientContext() { return undefined; }
  get client_context() { return undefined; }
  get_remaining_time_in_millis() { return this.remaining_ms(); }
  getRemainingTimeInMillis() { return this.remaining_ms(); }
}

// One call of the handler, from its event to the end of its answer.
import { answerOf } from './answer.mjs';
import { Context } from './context.mjs';
import { eventOf, InvalidJson } from './event.mjs';
import { noteFailure, noteSuccess } from './exhaustion.mjs';
import { failureAnswer, traceOf } from './failures.mjs';
import { endScope, LogScope, writeText } from './loglines.mjs';
import { sendStream } from './streaming.mjs';

const NO_BYTES = Buffer.alloc(0);

const ID_START = Array.from({ length: 2 }, () => Math.floor(Math.random() * 2 ** 32).toString(16).padStart(8, '0')).join('');
let lastId = 0;

/** An id for a request without one, sent by hand rather than by sless. */
export function newId() {
  lastId += 1;
  return ID_START + lastId.toString(16).padStart(16, '0');
}

/**
 * The call and, for calls over HTTP, its request. `responder` (responder.mjs, job.mjs) receives the answer; `calls.ended(call)` runs at the end.
 * The creator sets the request's fields; `deadline` is in the time of performance.now(), or null.
 */
export class Call {
  constructor(id, responder, calls) {
    this.responder = responder;
    this.calls = calls;
    this.log = new LogScope(id);
    this.requestId = id;
    this.trigger = 'http';
    this.overHttp = false;
    this.method = 'POST';
    this.rawPath = '/';
    this.queryText = '';
    this.fullPath = '/';
    this.clientIp = '';
    this.httpVersion = '1.1';
    this.rawHeaders = [];
    this.contentType = '';
    this.body = NO_BYTES;
    this.deadline = null;
    this.overdue = false; // the deadline passed before the answer began
    this.settled = false; // the handler returned or failed
    this.begun = false; // the first byte of a stream has been sent
    this.finished = false;
  }

  /** Runs the handler. Call it in the scope of this call (scope.mjs). */
  run(program) {
    const { settings, handler, owner, awsEventOf } = program;
    let result;
    try {
      const event = awsEventOf !== null && this.overHttp ? awsEventOf(this, settings) : eventOf(this);
      const context = new Context(this, settings);
      if (!program.usesCallback) result = handler.call(owner, event, context);
      else result = handler.call(owner, event, context, (error, value) => context.done(error, value));
    } catch (error) {
      this.fail(error);
      return;
    }
    if (typeof result?.then === 'function') {
      result.then((value) => this.settle(value), (error) => this.fail(error));
    } else if (!program.answersLater) this.settle(result);
    else if (!this.settled) this.calls.mayBeAbandoned(this);
  }

  /** Answers with the handler's result, unless the call has been answered. */
  settle(value) {
    if (this.settled) return;
    this.settled = true;
    let answer;
    try {
      answer = answerOf(value);
    } catch (error) {
      this.#refuse(error);
      return;
    }
    if (answer.stream === null) noteSuccess();
    this.#deliver(answer);
  }

  /** Answers with an error. If an answer has begun, aborts its stream. */
  fail(error) {
    if (!this.settled) {
      this.settled = true;
      this.#refuse(error);
      noteFailure(error);
    } else if (this.begun && !this.finished) {
      this.logError(error);
      this.responder.breakOff(error);
      this.finish();
    } else {
      this.logError(error);
    }
  }

  logError(error) {
    if (!(error instanceof InvalidJson)) writeText(this.log, 'stderr', `${traceOf(error)}\n`);
  }

  #refuse(error) {
    this.logError(error);
    this.#deliver(failureAnswer(error, this.requestId));
  }

  #deliver(answer) {
    if (this.overdue) { // the caller has stopped waiting
      this.finish();
      return;
    }
    if (answer.stream !== null) {
      sendStream(this, answer);
      return;
    }
    this.responder.send(answer);
    this.finish();
  }

  /** Ends the call and frees its slot; later output is logged line by line. */
  finish() {
    if (this.finished) return;
    this.finished = true;
    endScope(this.log);
    this.calls.ended(this);
  }
}

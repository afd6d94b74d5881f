// One call of the handler, from its event to the end of its answer.
import { answerOf } from './answer.mjs';
import { Context } from './context.mjs';
import { eventOf, InvalidJson } from './event.mjs';
import { failureAnswer, traceOf } from './failures.mjs';
import { endScope, LogScope, writeText } from './loglines.mjs';
import { sendStream } from './streaming.mjs';

const NO_BYTES = Buffer.alloc(0);

const ID_START = Array.from({ length: 2 }, () => Math.floor(Math.random() * 2 ** 32).toString(16).padStart(8, '0')).join('');
let lastId = 0;

/** An id for a call that came without one: the runtime was started by hand. */
export function newId() {
  lastId += 1;
  return ID_START + lastId.toString(16).padStart(16, '0');
}

/**
 * The call and, for calls over HTTP, its request. `responder` takes the answer (responder.mjs, job.mjs), `calls.ended(call)` is told when all is over.
 * Fields of the request are set by whoever makes the call; `deadline` is in the time of performance.now(), null for none.
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
    this.overdue = false; // its deadline passed before its answer began
    this.settled = false; // the handler returned or failed
    this.begun = false; // the first byte of a stream is out
    this.finished = false;
  }

  /** Runs the handler; must run as part of this call (scope.mjs). */
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
  }

  /** Answers with what the handler returned, unless it has been answered. */
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
    this.#deliver(answer);
  }

  /** Answers with an error, unless the call has been answered; then a stream that is under way breaks off. */
  fail(error) {
    if (!this.settled) {
      this.settled = true;
      this.#refuse(error);
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
    if (this.overdue) { // nobody waits for it any more
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

  /** The end: what is written from now on goes out line by line, and the place of the call is free. */
  finish() {
    if (this.finished) return;
    this.finished = true;
    endScope(this.log);
    this.calls.ended(this);
  }
}

// The calls of this process: concurrency limit, queue, deadlines.
import { endWhenAbandoned } from './abandoned.mjs';
import { flushScope } from './loglines.mjs';
import { runAs } from './scope.mjs';

// sless closes a call at its deadline. The runtime does so this much later, for callers other than sless: if it were first, sless would
// see a broken connection instead of answering 504.
const CLOSE_GRACE_MS = 1000;

export class Calls {
  #program;
  #concurrency;
  #running = new Set();
  #overdue = new Set();
  #waiting = [];
  #startingWaiting = false;
  #sweepTimer = null;
  #sweepAt = Infinity;
  #ownConnections;

  /** `ownConnections()`: how many sockets the runtime has open, its listening one included. */
  constructor(program, ownConnections) {
    this.#program = program;
    this.#ownConnections = ownConnections;
    this.#concurrency = program.settings.concurrency;
  }

  get active() {
    return this.#running.size + this.#overdue.size;
  }

  get overdue() {
    return this.#overdue.size;
  }

  get waiting() {
    return this.#waiting.length;
  }

  /** Logs the unfinished lines of the running calls before the process exits. */
  flushLogs() {
    for (const call of [...this.#running, ...this.#overdue]) flushScope(call.log);
  }

  /** Runs the call, now or when a slot is free. */
  admit(call) {
    if (call.deadline !== null && call.deadline < this.#sweepAt) this.#sweepLater(call.deadline);
    if (this.#running.size < this.#concurrency) this.#start(call);
    else this.#waiting.push(call);
  }

  #start(call) {
    this.#running.add(call);
    runAs(call, startCall, call, this.#program);
  }

  /** The handler has returned, and its result comes by callback. */
  mayBeAbandoned(call) {
    endWhenAbandoned(call, this.#ownConnections);
  }

  /** Call this when a call has finished. */
  ended(call) {
    this.#running.delete(call);
    this.#overdue.delete(call);
    if (this.#waiting.length > 0) this.#startWaiting();
  }

  #startWaiting() {
    if (this.#startingWaiting) return; // a call that ends at once re-enters here; the loop below continues instead of growing the stack
    this.#startingWaiting = true;
    while (this.#waiting.length > 0 && this.#running.size < this.#concurrency) {
      const call = this.#waiting.shift();
      if (!call.responder.closed) this.#start(call);
    }
    this.#startingWaiting = false;
  }

  // One timer for all calls: most end long before their deadline.
  #sweepLater(deadline) {
    clearTimeout(this.#sweepTimer);
    this.#sweepAt = deadline;
    this.#sweepTimer = setTimeout(() => this.#sweep(), Math.max(0, Math.ceil(deadline - performance.now())));
    this.#sweepTimer.unref();
  }

  #sweep() {
    this.#sweepAt = Infinity;
    const now = performance.now();
    let next = Infinity;
    for (const call of this.#running) {
      if (call.deadline === null || call.begun) continue;
      if (call.deadline <= now) this.#expire(call);
      else next = Math.min(next, call.deadline);
    }
    this.#waiting = this.#waiting.filter((call) => {
      if (call.deadline === null) return true;
      if (call.deadline <= now) closeLater(call);
      else next = Math.min(next, call.deadline);
      return call.deadline > now;
    });
    if (next !== Infinity) this.#sweepLater(next);
    this.#startWaiting();
  }

  /** Frees the slot of a handler that cannot be stopped, so that the process can still serve. */
  #expire(call) {
    call.overdue = true;
    this.#running.delete(call);
    this.#overdue.add(call);
    closeLater(call);
  }
}

function startCall(call, program) {
  call.run(program);
}

function closeLater(call) {
  setTimeout(() => call.responder.breakOff(), CLOSE_GRACE_MS).unref();
}

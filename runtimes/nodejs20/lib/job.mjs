// Job mode: runs one event and writes one outcome.
import fs from 'node:fs';

import { Call, newId } from './call.mjs';
import { faultOf, messageOf, traceOf, typeOf } from './failures.mjs';
import { isStream } from './answer.mjs';
import { endScope, writeStdout } from './loglines.mjs';
import { runAs } from './scope.mjs';

/** Converts the answer of the job's call into its outcome. */
class Collector {
  closed = false;
  #head = null;
  #chunks = [];
  #report;

  /** Calls `report(outcome)` once. */
  constructor(report) {
    this.#report = report;
  }

  onClose() {}

  send(answer) {
    this.#report(outcomeOf(answer));
  }

  start(head) {
    this.#head = head;
    return true;
  }

  write(chunk) {
    this.#chunks.push(Buffer.from(chunk));
  }

  finish() {
    this.#report(outcomeOf({ ...this.#head, body: Buffer.concat(this.#chunks) }));
  }

  breakOff(error) {
    this.#report(failedOutcome(messageOf(error), typeOf(error), 500));
  }
}

function bodyFieldOf(body) {
  if (body === null) return { body: '' };
  if (typeof body === 'string') return { body };
  const text = body.toString('utf8');
  return Buffer.from(text).equals(body) ? { body: text } : { body_base64: body.toString('base64') };
}

function pairsOfRaw(headers) {
  const pairs = [];
  for (let index = 0; index < headers.length; index += 2) pairs.push([headers[index].toLowerCase(), headers[index + 1]]);
  return pairs;
}

function outcomeOf(answer) {
  const { error } = answer;
  const shape = { status: answer.status, headers: pairsOfRaw(answer.headers), ...bodyFieldOf(answer.body) };
  if (error) return { ok: false, error: messageOf(error), error_type: faultOf(error) ?? typeOf(error), ...shape };
  return { ok: true, error: null, error_type: null, ...shape };
}

function failedOutcome(error, errorType, status) {
  return { ok: false, error, error_type: errorType, status, headers: [], body: '' };
}

function writeOutcome(outcome, resultFile) {
  if (resultFile === null) {
    writeStdout(`${JSON.stringify({ sless_outcome: outcome })}\n`);
    return;
  }
  const partFile = `${resultFile}.part`;
  fs.writeFileSync(partFile, JSON.stringify(outcome));
  fs.renameSync(partFile, resultFile);
}

function eventBodyOf(text) {
  try {
    JSON.parse(text);
    return text;
  } catch {
    return JSON.stringify({ body: text });
  }
}

/** Writes the outcome and ends the process, once. */
class JobEnd {
  #settings;
  #call;
  #abandoned = null;
  #reported = false;

  constructor(settings) {
    this.#settings = settings;
    this.#call = null;
    process.on('beforeExit', () => {
      if (this.#abandoned !== null) {
        const call = this.#abandoned;
        this.#abandoned = null;
        call.settle(undefined); // as AWS Lambda does for a handler that does not call back
        return;
      }
      this.report(failedOutcome('the handler never finished: the event loop has nothing left to wait for', 'Unfinished', 500));
    });
    process.on('exit', (code) => {
      if (this.#reported) return;
      this.#write(failedOutcome(`function exited with code ${code}`, 'Exit', 500));
      process.exitCode = 1;
    });
  }

  mayBeAbandoned(call) {
    this.#abandoned = call;
  }

  watch(call) {
    this.#call = call;
  }

  report(outcome) {
    this.#write(outcome);
    process.exit(outcome.ok ? 0 : 1);
  }

  #write(outcome) {
    this.#reported = true;
    if (this.#call !== null) endScope(this.#call.log);
    writeOutcome(outcome, this.#settings.resultFile);
  }
}

/** The outcome when the handler cannot be imported. */
export function reportImportFailure(settings, message, errorType) {
  writeOutcome(failedOutcome(message, errorType, 500), settings.resultFile);
}

/** Calls the handler with the event from the environment, then ends the process. */
export function run(program) {
  const { settings } = program;
  const end = new JobEnd(settings);
  process.on('SIGTERM', () => {}); // let the call finish; the sender decides how long it waits
  const call = new Call(settings.invocationId ?? newId(), new Collector((outcome) => end.report(outcome)), { ended() {}, mayBeAbandoned: (abandoned) => end.mayBeAbandoned(abandoned) });
  if (settings.requestId !== null) call.requestId = settings.requestId;
  call.trigger = settings.trigger;
  call.contentType = 'application/json';
  call.body = Buffer.from(eventBodyOf(settings.eventText));
  if (settings.timeoutSec > 0) call.deadline = performance.now() + settings.timeoutSec * 1000;
  end.watch(call);
  runAs(call, () => call.run(program));
}

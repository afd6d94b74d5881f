// Streamed answers: iterators, async iterables, Readables.
import { hasHeader, streamTypeOf } from './answer.mjs';
import { noteFailure, noteSuccess } from './exhaustion.mjs';
import { failureAnswer } from './failures.mjs';
import { bytesOf } from './json.mjs';

function nextTurn() {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** {pull, stop}: `pull()` returns the next {done, value}; `stop()` ends the source early and passes any error to `failed(error)`. */
function sourceOf(stream, failed) {
  const isAsync = typeof stream[Symbol.asyncIterator] === 'function';
  const iterator = isAsync ? stream[Symbol.asyncIterator]() : stream[Symbol.iterator]();
  let pulled = false;
  return {
    pull: async () => {
      // A generator that never waits must not delay other calls or its own chunks.
      if (pulled && !isAsync) await nextTurn();
      pulled = true;
      return iterator.next();
    },
    stop: () => {
      if (typeof stream.destroy === 'function') stream.destroy(); // return() would wait for the Readable's next chunk
      else endOf(iterator).catch(failed);
    },
  };
}

function chunkOf(value) {
  if (typeof value === 'string') return value;
  if (value instanceof ArrayBuffer) return Buffer.from(value);
  if (ArrayBuffer.isView(value)) return bytesOf(value);
  const kind = value === null ? 'null' : typeof value;
  throw new TypeError(`a chunk of a streamed answer must be text or bytes, not ${kind === 'object' ? 'an object' : kind}`);
}

async function endOf(iterator) {
  await iterator.return?.();
}

function isOwnStop(error) {
  return error?.code === 'ERR_STREAM_PREMATURE_CLOSE' || error?.name === 'AbortError';
}

async function sendChunks(call, source, first) {
  const { responder } = call;
  for (let step = first; !step.done; step = await source.pull()) {
    if (responder.closed) return;
    const chunk = chunkOf(step.value);
    if (chunk.length > 0) await responder.write(chunk);
  }
  responder.finish();
}

async function sendAll(call, answer, source) {
  const { responder } = call;
  const first = await source.pull();
  if (first.done !== true) chunkOf(first.value); // a wrong first chunk can still become a 500
  if (call.overdue || responder.closed) return;
  call.begun = true;
  const headers = hasHeader(answer.headers, 'content-type') ? answer.headers : [...answer.headers, 'Content-Type', streamTypeOf(first.value)];
  const wantsBody = responder.start({ status: answer.status, headers });
  if (wantsBody) await sendChunks(call, source, first);
}

/** Streams `answer.stream` as the body of the answer to `call`, then finishes the call. */
export async function sendStream(call, answer) {
  const { responder } = call;
  let source = null;
  const logError = (error) => {
    if (responder.closed && isOwnStop(error)) return;
    call.logError(error);
    noteFailure(error);
  };
  try {
    source = sourceOf(answer.stream, logError);
    responder.onClose(() => {
      source.stop();
      call.finish(); // a generator is stopped only after its pending wait, which may never end
    });
    await sendAll(call, answer, source);
    noteSuccess();
  } catch (error) {
    logError(error);
    if (call.begun) responder.breakOff(error);
    else if (!call.overdue) responder.send(failureAnswer(error, call.requestId));
  } finally {
    source?.stop();
    call.finish();
  }
}

// Answers that are sent piece by piece: iterators, async iterables, Readables.
import { hasHeader, streamTypeOf } from './answer.mjs';
import { failureAnswer } from './failures.mjs';
import { bytesOf } from './json.mjs';

function nextTurn() {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** {pull, stop}: `pull()` is the next {done, value}; `stop()` ends the source early, also while a pull waits. */
function sourceOf(stream) {
  const isAsync = typeof stream[Symbol.asyncIterator] === 'function';
  const iterator = isAsync ? stream[Symbol.asyncIterator]() : stream[Symbol.iterator]();
  let pulled = false;
  return {
    pull: async () => {
      // A generator that never waits must not keep other calls waiting, nor hold its pieces back.
      if (pulled && !isAsync) await nextTurn();
      pulled = true;
      return iterator.next();
    },
    stop: () => {
      if (typeof stream.destroy === 'function') stream.destroy(); // return() would wait for a Readable's next chunk
      else Promise.resolve(iterator.return?.()).catch(() => {}); // the answer is over: nobody is left to tell
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
  if (first.done !== true) chunkOf(first.value); // a wrong first chunk is still a clean 500
  if (call.overdue || responder.closed) return;
  call.begun = true;
  const headers = hasHeader(answer.headers, 'content-type') ? answer.headers : [...answer.headers, 'Content-Type', streamTypeOf(first.value)];
  const wantsBody = responder.start({ status: answer.status, headers });
  if (wantsBody) await sendChunks(call, source, first);
}

/** Sends the answer of `call` whose body is `answer.stream`, then finishes the call. */
export async function sendStream(call, answer) {
  let source = null;
  try {
    source = sourceOf(answer.stream);
    call.responder.onClose(source.stop);
    await sendAll(call, answer, source);
  } catch (error) {
    if (!call.finished) call.logError(error);
    if (call.begun) call.responder.breakOff(error);
    else if (!call.overdue) call.responder.send(failureAnswer(error, call.requestId));
  } finally {
    source?.stop();
    call.finish();
  }
}

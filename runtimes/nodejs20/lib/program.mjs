// The user's handler, and how it gives its answers.
import { loadHandler } from './entrypoint.mjs';

const CALLS_CONTEXT = /\.\s*(?:succeed|fail|done)\s*\(/;

function isAsync(handler) {
  return Object.prototype.toString.call(handler) === '[object AsyncFunction]';
}

/** Whether a handler may return before it calls context.done and the like; only its source can tell. */
function answersByContext(handler) {
  return handler.length === 2 && !isAsync(handler) && CALLS_CONTEXT.test(Function.prototype.toString.call(handler));
}

/**
 * Imports the handler. `usesCallback`: it takes Lambda's third argument; `answersLater`: what it returns (unless a promise) is not the answer.
 */
export async function loadProgram(settings) {
  const { handler, owner } = await loadHandler(settings);
  const usesCallback = handler.length >= 3;
  return { settings, handler, owner, usesCallback, answersLater: (usesCallback && !isAsync(handler)) || answersByContext(handler) };
}

// Tracks the call that the running code belongs to, through timers, promises and callbacks.
import { AsyncLocalStorage } from 'node:async_hooks';

const storage = new AsyncLocalStorage();

/** The current call; undefined outside calls. */
export function currentCall() {
  return storage.getStore();
}

/** Runs `work(...args)` as part of `call`. */
export function runAs(call, work, ...args) {
  return storage.run(call, work, ...args);
}

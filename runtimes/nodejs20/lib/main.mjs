// From the environment to a running mode.
import fs from 'node:fs';

import { captureOutput } from './capture.mjs';
import { NoHandler } from './entrypoint.mjs';
import { messageOf, traceOf, typeOf } from './failures.mjs';
import { reportImportFailure, runJob } from './job.mjs';
import { watchLifeline } from './lifeline.mjs';
import { processScope, writeText } from './loglines.mjs';
import { loadProgram } from './program.mjs';
import { currentCall } from './scope.mjs';
import { serve } from './server.mjs';
import { takeSettings, WrongEnvironment } from './settings.mjs';

const EXIT_NO_HANDLER = 1;
const EXIT_WRONG_ENVIRONMENT = 2;

// Taken before it is captured: what check mode and a wrong environment say is plain text.
const { writeSync } = fs;

/** The time until the handler is imported: whatever ends it early is a failed import. */
class Loading {
  #settings;
  #over = false;
  #exit = (code) => this.#exited(code);
  #neverSettles = false;

  constructor(settings) {
    this.#settings = settings;
    process.on('exit', this.#exit);
    process.once('beforeExit', () => {
      this.#neverSettles = true;
    });
  }

  get over() {
    return this.#over;
  }

  finish() {
    this.#over = true;
    process.off('exit', this.#exit);
  }

  fail(error) {
    this.finish();
    this.#say(error instanceof NoHandler ? error.message : traceOf(error), messageOf(error), typeOf(error));
    process.exit(EXIT_NO_HANDLER);
  }

  #exited(code) {
    const what = this.#neverSettles ? 'waits for something that never comes' : `exited with code ${code}`;
    const message = `entrypoint ${this.#settings.entrypoint}: the code ${what} while it was imported`;
    this.#say(message, message, 'Exit');
    process.exitCode = EXIT_NO_HANDLER;
  }

  #say(text, message, errorType) {
    if (this.#settings.mode === 'check') writeSync(2, `${text}\n`);
    else writeText(processScope, 'stderr', `${text}\n`);
    if (this.#settings.mode === 'job') reportImportFailure(this.#settings, message, errorType);
  }
}

/** An error that nobody caught ends the import or the call it belongs to, never the process. */
function guard(loading) {
  const caught = (error) => {
    if (!loading.over) {
      loading.fail(error);
      return;
    }
    const call = currentCall();
    if (call) call.fail(error);
    else writeText(processScope, 'stderr', `${traceOf(error)}\n`);
  };
  process.on('uncaughtException', caught);
  process.on('unhandledRejection', caught); // not left to the former: a listener of the user's would keep it from there
}

function prepare() {
  try {
    const settings = takeSettings(process.env);
    if (settings.lifelineFd !== null) watchLifeline(settings.lifelineFd);
    process.chdir(settings.codeDir);
    return settings;
  } catch (error) {
    return refuseEnvironment(error);
  }
}

function refuseEnvironment(error) {
  writeSync(2, `${error instanceof WrongEnvironment ? error.message : traceOf(error)}\n`);
  process.exit(EXIT_WRONG_ENVIRONMENT);
}

export async function main() {
  const settings = prepare();
  const loading = new Loading(settings);
  guard(loading);
  if (settings.mode !== 'check') captureOutput();
  let program;
  try {
    program = await loadProgram(settings);
  } catch (error) {
    loading.fail(error);
  }
  loading.finish();
  if (settings.mode === 'check') process.exit(0);
  else if (settings.mode === 'job') runJob(program);
  else await serve(program).catch(refuseEnvironment);
}

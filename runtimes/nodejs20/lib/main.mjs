// Reads the environment and starts a mode.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';

import { captureOutput } from './capture.mjs';
import { loadProgram, NoHandler } from './entrypoint.mjs';
import { messageOf, setCodeFolder, traceOf, typeOf } from './failures.mjs';
import { processScope, writeText } from './loglines.mjs';
import { currentCall } from './scope.mjs';
import { takeSettings, WrongEnvironment } from './settings.mjs';

const EXIT_NO_HANDLER = 1;
const EXIT_WRONG_ENVIRONMENT = 2;

// The original, before it is captured: check mode and a wrong environment print plain text.
const { writeSync } = fs;

/** The phase until the handler is imported: an exit during it is a failed import. */
class Loading {
  #settings;
  #failed;
  #over = false;
  #exit = (code) => this.#exited(code);
  #neverSettles = false;

  /** Calls `failed(settings, message, errorType)`, if given, after a failed import. */
  constructor(settings, failed) {
    this.#settings = settings;
    this.#failed = failed;
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
    this.#say(error instanceof NoHandler ? error.message : this.#reportOf(error), messageOf(error), typeOf(error));
    process.exit(EXIT_NO_HANDLER);
  }

  /** File, line and reason, then the stack without its first line if that only repeats the reason. */
  #reportOf(error) {
    const { headlineOf } = createRequire(import.meta.url)('./headline.cjs');
    const headline = headlineOf(error, `${process.cwd()}/`, (one) => (one instanceof Error ? `${typeOf(one)}: ${messageOf(one)}` : messageOf(one)));
    const [first, ...rest] = traceOf(error).split('\n');
    return [headline, ...(headline.endsWith(first) ? [] : [first]), ...rest].join('\n');
  }

  #exited(code) {
    const what = this.#neverSettles ? 'waits for something that never happens' : `exited with code ${code}`;
    const message = `entrypoint ${this.#settings.entrypoint}: the code ${what} while it was imported`;
    this.#say(message, message, 'Exit');
    process.exitCode = EXIT_NO_HANDLER;
  }

  #say(text, message, errorType) {
    if (this.#settings.mode === 'check') writeSync(2, `${text}\n`);
    else writeText(processScope, 'stderr', `${text}\n`);
    this.#failed?.(this.#settings, message, errorType);
  }
}

/** An uncaught error ends the import or the call it belongs to, never the process. */
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
  process.on('unhandledRejection', caught); // separately, because a listener of the user's would keep it from 'uncaughtException'
}

/** Kills the process group, including what the handler started, when the pipe with read end `fd` closes. */
function watchLifeline(fd) {
  const end = () => process.kill(0, 'SIGKILL');
  let pipe;
  try {
    pipe = new net.Socket({ fd, readable: true, writable: false });
  } catch (error) {
    throw new WrongEnvironment(`SLESS_LIFELINE_FD ${fd} cannot be read: ${error.message}`);
  }
  pipe.on('end', end);
  pipe.on('error', end);
  pipe.resume();
  pipe.unref();
}

function refuse(error) {
  writeSync(2, `${error instanceof WrongEnvironment ? error.message : traceOf(error)}\n`);
  process.exit(EXIT_WRONG_ENVIRONMENT);
}

/** Applies settings, working directory and lifeline; exits with code 2 when the environment is wrong. */
function prepare() {
  try {
    const settings = takeSettings(process.env);
    process.env.NODE_ENV ??= 'production';
    if (settings.lifelineFd !== null) watchLifeline(settings.lifelineFd);
    process.chdir(settings.codeDir);
    setCodeFolder(process.cwd());
    return settings;
  } catch (error) {
    return refuse(error);
  }
}

/** Loads only the module of the given mode, because each file adds to the start-up time. */
async function partFor(mode) {
  if (mode === 'job') return import('./job.mjs');
  if (mode === 'server') return import('./server.mjs');
  return { run: () => process.exit(0) };
}

export async function main() {
  const settings = prepare();
  const part = await partFor(settings.mode);
  const loading = new Loading(settings, part.reportImportFailure);
  guard(loading);
  if (settings.mode !== 'check') captureOutput();
  let program;
  try {
    program = await loadProgram(settings);
  } catch (error) {
    loading.fail(error);
  }
  loading.finish();
  try {
    await part.run(program);
  } catch (error) {
    refuse(error);
  }
}

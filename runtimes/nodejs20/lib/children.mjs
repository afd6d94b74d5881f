// Captures output of child processes that inherit stdout or stderr: a pipe replaces the descriptor, and the output is logged for the call.
import childProcess from 'node:child_process';

const { spawnSync } = childProcess;
const STREAMS = [null, 'stdout', 'stderr'];

/** The stream ("stdout" | "stderr") that entry `index` of `stdio` passes on to a child, or null. */
function inheritedStreamOf(entry, index) {
  if (entry === 'inherit') return STREAMS[index] ?? null;
  const fd = typeof entry === 'number' ? entry : entry?.fd;
  return STREAMS[fd] ?? null;
}

/** `stdio` with pipes in place of inherited output, and the replaced indexes; null when nothing is inherited. */
function pipedStdio(stdio) {
  if (stdio === undefined || stdio === null || stdio === 'pipe' || stdio === 'ignore' || stdio === 'overlapped') return null;
  const entries = Array.isArray(stdio) ? [...stdio] : [stdio, stdio, stdio];
  const places = [];
  for (const [index, entry] of entries.entries()) {
    const stream = inheritedStreamOf(entry, index);
    if (index === 0 || stream === null) continue;
    entries[index] = 'pipe';
    places.push({ index, stream });
  }
  return places.length > 0 ? { stdio: entries, places } : null;
}

function captureSpawn(write) {
  const spawn = childProcess.ChildProcess.prototype.spawn;
  childProcess.ChildProcess.prototype.spawn = function spawnCaptured(options) {
    const piped = pipedStdio(options?.stdio);
    if (piped === null) return spawn.call(this, options);
    const result = spawn.call(this, { ...options, stdio: piped.stdio });
    for (const { index, stream } of piped.places) {
      const pipe = this.stdio?.[index];
      if (!pipe) continue; // the child did not start
      pipe.on('data', (bytes) => write(stream, bytes));
      pipe.on('error', () => {});
      pipe.unref();
      this.stdio[index] = null; // as for an inherited descriptor
      if (index < STREAMS.length) this[STREAMS[index]] = null;
    }
    return result;
  };
}

/** Runs a child synchronously and writes its `piped` output at the end: it cannot be read earlier. */
function runCollected(write, piped, { file, args, options }) {
  const result = spawnSync(file, args, { ...options, maxBuffer: Infinity, stdio: piped.stdio });
  for (const { index, stream } of piped.places) {
    const bytes = result.output?.[index];
    if (bytes?.length > 0) write(stream, bytes);
    if (result.output) result.output[index] = null;
  }
  [, result.stdout, result.stderr] = result.output ?? [];
  return result;
}

/** Result of execSync and execFileSync: stdout, or the error they throw. */
function stdoutOf(result, command) {
  if (!result.error && result.status === 0) return result.stdout;
  throw Object.assign(result.error ?? new Error(`Command failed: ${command}`), result);
}

function captureSync(write) {
  const { execSync, execFileSync } = childProcess;
  childProcess.spawnSync = (file, args, options) => {
    const given = Array.isArray(args) ? options : (options ?? args);
    const piped = pipedStdio(given?.stdio);
    if (piped === null) return spawnSync(file, args, options);
    return runCollected(write, piped, { file, args: Array.isArray(args) ? args : [], options: given });
  };
  childProcess.execSync = (command, options) => {
    const piped = pipedStdio(options?.stdio);
    if (piped === null) return execSync(command, options);
    return stdoutOf(runCollected(write, piped, { file: command, args: [], options: { shell: true, ...options } }), command);
  };
  childProcess.execFileSync = (file, args, options) => {
    const given = Array.isArray(args) ? options : (options ?? args);
    const piped = pipedStdio(given?.stdio);
    if (piped === null) return execFileSync(file, args, options);
    const argumentList = Array.isArray(args) ? args : [];
    return stdoutOf(runCollected(write, piped, { file, args: argumentList, options: given }), [file, ...argumentList].join(' '));
  };
}

/** Calls `write(stream, bytes)` with the output of every child that inherits this process's output. */
export function captureChildren(write) {
  captureSpawn(write);
  captureSync(write);
}

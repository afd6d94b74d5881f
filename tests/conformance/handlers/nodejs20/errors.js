// Every way to fail, by name.
const fs = require('node:fs');

class OddError extends Error {}

const FAILURES = {
  descriptors: () => { for (;;) fs.openSync('/dev/null'); },
  wrapped_exhaustion: () => {
    try {
      FAILURES.descriptors();
    } catch (cause) {
      throw new TypeError('the service cannot be reached', { cause });
    }
  },
  * exhausted_stream() {
    yield FAILURES.descriptors();
  },
  no_process: () => { throw Object.assign(new Error('spawn /bin/true EAGAIN'), { code: 'EAGAIN' }); },
  no_thread: () => { throw Object.assign(new Error('Worker initialization failure: EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' }); },
  none: () => 'fine',
  raise: () => { throw new Error('went wrong: 7'); },
  raise_async: async () => {
    await null;
    throw new Error('went wrong later');
  },
  raise_empty: () => { throw new TypeError(); },
  raise_unicode: () => { throw new Error('schiefgegangen: ü 🎉'); },
  raise_long: () => { throw new Error('x'.repeat(5000)); },
  subclass: () => { throw new OddError('odd'); },
  thrown_text: () => { throw 'just text'; }, // eslint-disable-line no-throw-literal
  thrown_null: () => Promise.reject(null), // eslint-disable-line prefer-promise-reject-errors
  hostile: () => {
    const get = () => { throw new Error('no'); };
    throw Object.defineProperties(new Error(), { stack: { get }, message: { get }, name: { get } });
  },
  deep: () => FAILURES.deep() + 1,
  timer: () => new Promise(() => {
    setTimeout(() => { throw new Error('thrown in a timer'); }, 1);
  }),
  rejection: () => new Promise(() => {
    Promise.reject(new Error('nobody caught this'));
  }),
  after_answer: () => {
    setTimeout(() => { throw new Error('thrown after the answer'); }, 5);
    return 'answered';
  },
  too_large: () => Buffer.alloc(2 ** 53),
  exit: () => {
    process.stdout.write('last words');
    process.exit(3);
  },
};

exports.fail = (event) => FAILURES[event.kind]();

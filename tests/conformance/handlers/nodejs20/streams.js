// Results that are sent piece by piece.
const { setTimeout: sleep } = require('node:timers/promises');
const { Readable } = require('node:stream');

function* text() {
  yield 'one ';
  yield 'two ';
  yield 'three';
}

async function* later() {
  yield 'one ';
  await sleep(10);
  yield 'two';
}

function* failsAtOnce() {
  throw new Error('before the first');
}

function* failsLater() {
  yield 'first';
  throw new Error('after the first');
}

function* logs() {
  console.log('log a');
  yield 'a';
  console.log('log b');
  yield 'b';
}

const STREAMS = {
  text,
  binary: () => [0, 1, 2].map(() => Buffer.from([0, 0xff])).values(),
  async: later,
  status: () => ({ statusCode: 207, headers: { 'Content-Type': 'text/csv', 'X-S': '1' }, body: ['a', 'b'].values() }),
  empty: () => [].values(),
  large: () => Array.from({ length: 48 }, () => Buffer.alloc(65536, 'z')).values(),
  fails_at_once: failsAtOnce,
  fails_later: failsLater,
  wrong_chunk: () => [{ a: 1 }].values(),
  logs,
  readable: () => Readable.from([Buffer.from('read'), Buffer.from('able')]),
  web: () => new Blob(['web']).stream(),
  readable_fails: () => new Readable({ read() { this.destroy(new Error('cannot be read')); } }),
};

exports.stream = (event) => STREAMS[event.kind]();

exports.generate = function* generate(event) {
  for (let i = 0; i < event.n; i++) yield `${i},`;
};

exports.generate_async = async function* generateAsync(event) {
  for (let i = 0; i < event.n; i++) {
    await null;
    yield `${i},`;
  }
};

let stopped = 0;

/** Never ends by itself; `event.kind` "stopped" returns how many have been stopped so far. */
exports.endless = (event) => {
  if (event.kind === 'stopped') return { stopped };
  if (event.kind === 'readable') {
    return new Readable({
      read() {},
      construct(callback) {
        this.push('x');
        callback();
      },
      destroy(error, callback) {
        stopped += 1;
        callback(null);
      },
    });
  }
  return (async function* endless() {
    try {
      for (;;) {
        yield 'x'.repeat(10_000);
        await sleep(2);
      }
    } finally {
      stopped += 1;
    }
  })();
};

// Slow calls. `gate` is a file: the handler continues when it exists.
const fs = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');

console.log('imported');

const cell = new Int32Array(new SharedArrayBuffer(4));

function waitGate(gate) {
  while (!fs.existsSync(gate)) Atomics.wait(cell, 0, 0, 5);
}

async function gateOpens(gate) {
  while (!fs.existsSync(gate)) await sleep(5);
}

/** Waits for the gate without blocking. */
exports.pause = async (event) => {
  console.log('started', event.name ?? '');
  if (event.gate) await gateOpens(event.gate);
  console.log('finished', event.name ?? '');
  return { name: event.name };
};

/** A stream that waits for the gate after its first chunk. */
exports.gated = function* gated(event) {
  try {
    yield 'first';
    waitGate(event.gate);
    for (let i = 0; i < (event.count ?? 1); i++) yield 'second'.repeat(event.times ?? 1);
  } finally {
    console.log('closed');
  }
};

exports.gated_async = async function* gatedAsync(event) {
  try {
    yield 'first';
    await gateOpens(event.gate);
    for (let i = 0; i < (event.count ?? 1); i++) yield 'second'.repeat(event.times ?? 1);
  } finally {
    console.log('closed');
  }
};

/** Takes more and more memory, if asked to. */
exports.eat = async (event) => {
  const kept = [];
  while (event.much) {
    kept.push(Buffer.alloc(1 << 20, 1));
    await sleep(2);
  }
  return { kept: kept.length };
};

/** Ends the process without an exit event and without flushing output. */
exports.die = (event) => process.reallyExit(event.code);

exports.size = (event, context) => ({ size: context.http.body.length, sum: context.http.body.subarray(0, 1000).reduce((sum, byte) => sum + byte, 0) });

exports.mirror = (event, context) => context.http.body;

/** An event stream that waits for the gate after its first event. */
exports.sse = (event) => ({ statusCode: 200, headers: { 'Content-Type': 'text/event-stream' }, body: twoEvents(event.gate) });

async function* twoEvents(gate) {
  yield 'data: first\n\n';
  await gateOpens(gate);
  yield 'data: second\n\n';
}

// Handlers as written for AWS Lambda behind an HTTP API, in every style that Lambda knows.
const assert = require('node:assert');

exports.handler = async (event, context) => {
  assert(context.awsRequestId);
  assert(context.getRemainingTimeInMillis() > 0);
  return {
    statusCode: 201,
    headers: { 'X-From': 'lambda', 'Content-Type': 'application/json' },
    cookies: ['c=3'],
    body: JSON.stringify(event),
  };
};

exports.keys = (event, context, callback) => callback(null, Object.keys(event).sort());

exports.plain = (event, context, callback) => {
  setTimeout(() => callback(null, { message: 'hi' }), 5);
};

exports.callback = (event, context, callback) => setImmediate(() => (event.fail ? callback(new Error('by callback')) : callback(null, event)));

exports.done = (event, context) => {
  setTimeout(() => context.done(event.fail ? new Error('by done') : null, event), 1);
};

exports.succeed = (event, context) => {
  setTimeout(() => (event.fail ? context.fail(new Error('by fail')) : context.succeed(event)), 1);
};

exports.no_callback = (event, context, callback) => {
  if (event.later) setTimeout(() => Promise.resolve().then(() => callback(null, 'late')), event.later);
};

exports.callback_and_promise = async (event, context, callback) => {
  callback(null, 'first');
  return 'second';
};

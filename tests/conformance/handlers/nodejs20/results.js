// Every form of result, by name.
const PNG = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

function cycle() {
  const node = {};
  node.self = node;
  return node;
}

function deepCycle() {
  const node = { a: [{}] };
  node.a[0].back = node;
  return node;
}

const answer = (statusCode, body, more) => ({ statusCode, body, ...more });

const FORMS = {
  object: () => ({ a: 1, b: [true, null] }),
  array: () => [1, 2],
  number: () => 42,
  boolean: () => false,
  text: () => 'Grüße',
  empty_text: () => '',
  binary: () => PNG,
  nothing: () => undefined,
  null: () => null,
  status: () => answer(201, 'made', { headers: { 'X-Made': 'yes', 'X-Count': 3 } }),
  status_text: () => answer('404', 'no'),
  status_only: () => ({ statusCode: 202 }),
  status_object_body: () => answer(200, { ok: true }),
  status_binary: () => answer(200, PNG, { headers: { 'content-type': 'image/png' } }),
  status_base64: () => answer(200, PNG.toString('base64'), { headers: { 'Content-Type': 'image/png' }, isBase64Encoded: true }),
  status_html: () => answer(200, '<p>hi</p>', { headers: { 'CONTENT-TYPE': 'text/html' } }),
  multi_headers: () => answer(200, 'ok', { multiValueHeaders: { 'X-Many': ['1', '2'] }, cookies: ['a=1; Path=/', 'b=2'] }),
  multi_over_single: () => answer(200, 'ok', { headers: { 'x-many': '0', 'X-One': '1' }, multiValueHeaders: { 'X-Many': ['1', '2'] } }),
  latin_header: () => answer(200, '日本', { headers: { 'X-Wide': 'Grüße' } }),
  base64_text_flag: () => answer(200, 'aGk=', { isBase64Encoded: 'false' }),
  base64_nothing: () => answer(200, null, { isBase64Encoded: true }),
  base64_object: () => answer(200, { a: 1 }, { isBase64Encoded: true }),
  stream: () => ['one', 'two'].values(),
  bodiless_stream: () => answer(204, ['one', 'two'].values()),
  list_header: () => answer(200, 'ok', { headers: { 'X-Many': ['1', '2'] } }),
  status_500: () => answer(500, 'own failure'),
  status_304: () => answer(304, 'ignored'),
  hop_headers: () => answer(200, 'ok', {
    headers: {
      'X-Sless-Error': 'forged',
      'x-sless-fault': 'forged',
      'Keep-Alive': 'timeout=1',
      'Transfer-Encoding': 'gzip',
      'Content-Length': '999',
      Connection: 'close, X-named',
      'X-Kept': '1',
    },
    multiValueHeaders: { 'x-Named': ['1'] },
  }),
  redirect: () => ({ statusCode: 302, headers: { Location: '/elsewhere?a=b' } }),
  status_too_high: () => answer(600),
  status_too_low: () => answer(199),
  status_word: () => answer('teapot'),
  status_true: () => answer(true),
  header_name: () => answer(200, 'x', { headers: { 'bad name': 'x' } }),
  header_newline: () => answer(200, 'x', { headers: { 'X-Split': 'a\r\nX-Forged: 1' } }),
  header_wide: () => answer(200, 'x', { headers: { 'X-Wide': '日本' } }),
  headers_not_object: () => answer(200, 'x', { headers: [1] }),
  bad_base64: () => answer(200, '!!!', { isBase64Encoded: true }),
  nan: () => ({ items: [1, { ratio: NaN }] }),
  infinity: () => [Infinity],
  set: () => ({ tags: new Set([1, 2]) }),
  cycle,
  deep_cycle: deepCycle,
  nan_body: () => answer(200, { x: NaN }),
  strange: () => ({ value: () => 1 }),
  // JavaScript only
  rich: () => ({
    when: new Date('2026-01-31T09:26:53.589Z'),
    raw: Buffer.from([0xff, 0]),
    view: new Uint8Array([0xff, 0]),
    big: 12345678901234567890n,
    left_out: undefined,
    hole: [undefined, 1],
    own: { toJSON: () => 'by toJSON' },
    floats: new Float64Array([1.5, 2]),
    text: new String('boxed'), // eslint-disable-line no-new-wrappers
  }),
  separators: () => ({ a: [1, 2], b: 'ü"\n', 'ключ': {} }),
  map: () => ({ m: new Map([['a', 1]]) }),
  promise: () => ({ later: Promise.resolve(1) }),
  invalid_date: () => ({ at: new Date(NaN) }),
  uint8array: () => new Uint8Array([1, 2]),
  array_buffer: () => new Uint8Array([1, 2]).buffer,
  triple_is_json: () => ['short', 418, { 'X-T': '1' }],
  header_date: () => answer(200, 'x', { headers: { 'Last-Modified': new Date(0) } }),
  headers_object: () => answer(200, 'x', { headers: new Headers({ 'X-A': '1' }) }),
  too_deep: () => Array.from({ length: 100_000 }).reduce((inner) => [inner], 1),
  shared: () => {
    const one = { n: 1 };
    return [one, one];
  },
};

exports.form = (event) => FORMS[event.form]();

// Every way to write to stdout and stderr, by name.
const childProcess = require('node:child_process');
const fs = require('node:fs');
const { Readable } = require('node:stream');
const { Worker } = require('node:worker_threads');

function ended(child) {
  return new Promise((resolve) => {
    child.on('close', () => resolve());
  });
}

function endsWell(promise) {
  return promise.then(() => undefined);
}

const WRITERS = {
  print: () => {
    console.log('one');
    console.info('%s', 'two');
  },
  error_stream: () => console.error('warning'),
  partial: () => process.stdout.write('no newline'),
  many_lines: () => console.log('a\n\nb'),
  crlf: () => process.stdout.write('windows\r\nline\r\n'),
  ansi: () => console.log('\x1b[1;31mred\x1b[0m and \x1b]0;window\x07title\x1b[K plain'),
  unicode: () => console.log('Grüße 日本 🎉'),
  json_text: () => console.log('{"level": "info", "quote": "\\""}'),
  control_characters: () => console.log('tab\there \x01 end'),
  long_line: () => console.log(`${'x'.repeat(20_000)}\nafter`),
  invalid_utf8: () => process.stdout.write(Buffer.from('bad \xff byte\n', 'latin1')),
  child: () => ended(childProcess.spawn('echo', ['from a child'], { stdio: 'inherit' })),
  raw_descriptor: () => {
    fs.writeSync(1, 'raw out\n');
    fs.writeSync(2, Buffer.from('raw err\n'));
  },
  later: () => {
    setTimeout(() => console.log('from a timer'), 50);
  },
  child_sync: () => {
    childProcess.spawnSync('sh', ['-c', 'echo sync; echo sync err >&2'], { stdio: 'inherit' });
    childProcess.execSync('echo shell', { stdio: [0, 1, 2] });
    childProcess.execFileSync('echo', ['file'], { stdio: ['ignore', process.stdout, 'pipe'] });
  },
  child_piped: () => {
    console.log(String(childProcess.execSync('echo piped')).trim(), childProcess.spawnSync('echo', ['too']).stdout.toString().trim());
  },
  child_fails: () => {
    try {
      childProcess.execSync('echo out; exit 3', { stdio: 'inherit' });
    } catch (error) {
      console.log(error.status);
    }
  },
  raw_async: () => endsWell(Promise.all([
    new Promise((resolve) => {
      fs.write(1, 'text\n', resolve);
    }),
    new Promise((resolve) => {
      fs.write(2, Buffer.from('..bytes\n..'), 2, 6, resolve);
    }),
  ])),
  raw_file: () => fs.writeFileSync(1, 'whole\n'),
  split_character: () => {
    const bytes = Buffer.from('ü\n');
    process.stdout.write(bytes.subarray(0, 1));
    process.stdout.write(bytes.subarray(1));
  },
  endless_line: () => {
    for (let i = 0; i < 40; i++) process.stdout.write('x'.repeat(5000));
    process.stdout.write('\nafter\n');
  },
  long_unicode: () => console.log(`x${'ü'.repeat(20_000)}`),
  piped_stream: () => new Promise((resolve) => {
    const source = Readable.from(['pi', 'ped\n']);
    source.pipe(process.stdout);
    source.on('end', () => setImmediate(resolve));
  }),
  ended_stream: () => {
    process.stdout.end('the end\n');
    console.log('and on');
  },
  warning: () => {
    process.emitWarning('careful');
    return new Promise((resolve) => {
      setTimeout(resolve, 20);
    });
  },
  worker: () => new Promise((resolve) => {
    new Worker('console.log("from a worker")', { eval: true }).on('exit', () => resolve());
  }),
};

exports.write = (event) => {
  const result = WRITERS[event.kind]();
  return result instanceof Promise ? result.then(() => 'done') : 'done';
};

/** Writes `count` lines of 100 characters. */
exports.flood = (event) => {
  for (let i = 0; i < event.count; i++) console.log(String(i).padStart(100, '0'));
  return 'done';
};

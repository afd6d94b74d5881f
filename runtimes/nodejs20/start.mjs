// Starts the runtime in a container: unpacks code that was mounted as a tar.gz (small code only; larger code is part of the image), then
// becomes the runtime in the same process, so that signals reach it.
import { mkdirSync, readFileSync, readdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize, sep } from 'node:path';
import { gunzipSync } from 'node:zlib';

const BLOCK = 512;

function textOf(bytes, start, length) {
  const text = bytes.toString('utf8', start, start + length);
  const end = text.indexOf('\0');
  return end === -1 ? text : text.slice(0, end);
}

/** Files and links of a GNU tar, where an entry of type L or K holds a name or link target longer than 100 bytes. */
function* entriesOf(tar) {
  let longName;
  let longTarget;
  for (let at = 0; at + BLOCK <= tar.length && tar[at] !== 0;) {
    const size = parseInt(textOf(tar, at + 124, 12), 8) || 0;
    const type = String.fromCharCode(tar[at + 156]);
    const content = tar.subarray(at + BLOCK, at + BLOCK + size);
    if (type === 'L') longName = textOf(content, 0, size);
    else if (type === 'K') longTarget = textOf(content, 0, size);
    else {
      const mode = parseInt(textOf(tar, at + 100, 8), 8);
      yield { type, mode, content, name: longName ?? textOf(tar, at, 100), target: longTarget ?? textOf(tar, at + 157, 100) };
      longName = undefined;
      longTarget = undefined;
    }
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
}

/** Empties the folder: a restarted container finds whatever the handler left in it. */
function unpack(archive, folder) {
  const root = realpathSync(folder);
  for (const name of readdirSync(root)) rmSync(join(root, name), { recursive: true, force: true });
  const links = [];
  for (const { type, mode, content, name, target } of entriesOf(gunzipSync(readFileSync(archive)))) {
    const path = normalize(join(root, name));
    if (!path.startsWith(root + sep)) throw new Error(`${JSON.stringify(name)} leads out of the folder`);
    mkdirSync(dirname(path), { recursive: true });
    if (type === '2') links.push([path, target]);
    else if (type === '0') writeFileSync(path, content, { mode });
  }
  for (const [path, target] of links) symlinkSync(target, path); // last, so that no file is written through a link
}

const archive = process.env.SLESS_CODE_ARCHIVE;
const folder = process.env.SLESS_CODE_DIR ?? '/app/function';
delete process.env.SLESS_CODE_ARCHIVE;
if (archive) {
  try {
    unpack(archive, folder);
  } catch (error) {
    console.error(`cannot unpack the code in ${archive} into ${folder}: ${error.message}`);
    process.exit(1);
  }
}
await import('./runtime.mjs');

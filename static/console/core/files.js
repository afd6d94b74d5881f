// Files of an upload: {path: text | {base64}}, as in the REST interface.

const MOST_BYTES = 32 * 1024 * 1024;
const LEFT_OUT = /(^|\/)(\.git|node_modules|__pycache__|\.venv|\.DS_Store|\.env)(\/|$)/;

export const isBinary = (content) => typeof content !== 'string';

export function sizeOf(content) {
  return isBinary(content) ? (content.base64.length * 3) / 4 - (content.base64.match(/=+$/)?.[0].length ?? 0) : new TextEncoder().encode(content).length;
}

export function isTooLarge(files) {
  let total = 0;
  for (const content of files.values()) total += sizeOf(content);
  return total > MOST_BYTES;
}

export function isGoodPath(path) {
  return path.length > 0 && path.length < 200 && !path.startsWith('/') && !path.split('/').some((part) => part === '' || part === '.' || part === '..');
}

// Whether one path is a folder of the other, so both cannot exist.
export const collide = (one, other) => one.startsWith(`${other}/`) || other.startsWith(`${one}/`);

export async function contentOf(file) {
  const data = new Uint8Array(await file.arrayBuffer());
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data);
    if (!text.includes('\0')) return text;
  } catch {
    // not text
  }
  return { base64: base64Of(data) };
}

function base64Of(data) {
  const parts = [];
  for (let at = 0; at < data.length; at += 0x8000) parts.push(String.fromCharCode(...data.subarray(at, at + 0x8000)));
  return btoa(parts.join(''));
}

// [{path, file}] of a file input; the name of a chosen folder itself is dropped.
export function chosenFiles(input) {
  return kept([...input.files].map((file) => ({ path: file.webkitRelativePath ? file.webkitRelativePath.split('/').slice(1).join('/') : file.name, file })));
}

// [{path, file}] of what was dropped. A single folder is unpacked.
export async function droppedFiles(transfer) {
  const items = [...transfer.items].filter((item) => item.kind === 'file').map((item) => [item.webkitGetAsEntry?.(), item.getAsFile()]);
  const entries = items.map(([entry]) => entry).filter(Boolean);
  const found = items.filter(([entry, file]) => !entry && file).map(([, file]) => ({ path: file.name, file })); // not from a disk
  const top = entries.length === 1 && entries[0].isDirectory ? await childrenOf(entries[0]) : entries;
  for (const entry of top) await collect(entry, '', found);
  return kept(found);
}

function kept(found) {
  const names = found.map(({ path }) => LEFT_OUT.exec(path)).filter(Boolean).map((match) => match.input.slice(0, match.index) + match[1] + match[2]);
  return { files: found.filter(({ path }) => !LEFT_OUT.test(path)), leftOut: [...new Set(names)] };
}

async function collect(entry, prefix, found) {
  const path = prefix + entry.name;
  if (entry.isDirectory) {
    if (LEFT_OUT.test(path)) found.push({ path });
    else for (const child of await childrenOf(entry)) await collect(child, `${path}/`, found);
  } else {
    found.push({ path, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) });
  }
}

async function childrenOf(folder) {
  const reader = folder.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found; // browsers give at most 100 at once
    found.push(...some);
  }
}

export function saveAs(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  Object.assign(link, { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

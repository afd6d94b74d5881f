// The code of a function, service or job: edit, save and deploy, with the build log.
import { settled, showBuild } from '../core/build.js';
import { ask, confirmed } from '../core/dialog.js';
import { bytes, el } from '../core/dom.js';
import { chosenFiles, collide, contentOf, droppedFiles, isBinary, isGoodPath, isTooLarge, saveAs, sizeOf } from '../core/files.js';
import { toast } from '../core/frame.js';
import { t } from '../core/page.js';
import { errorOf, rest, send } from '../core/rest.js';

const root = document.getElementById('code');
const { rest: path, name, entrypoint } = root.dataset;
const part = (id) => document.getElementById(id);
const list = root.querySelector('.files');
const files = new Map();
let saved = new Map();
let active = null; // files of the active version, loaded for the comparison
let current = '';
let busy = false;
let saveNext = false; // save what was changed during a build when it has ended
const DRAFT = `code:${location.pathname}`;
const PROBLEM = `problem:${location.pathname}`; // why the first upload of a new function failed
let kept = false; // the page may be left

const { createEditor } = await import('editor' in root.dataset ? '../editor/editor.js' : '../core/text_area.js');
const editor = createEditor({ parent: part('editor'), label: t('workload_code.editor'), onChange: (text) => change(current, text) });

function change(file, content) {
  files.set(file, content);
  kept = false;
  showState();
}

const isChanged = (file) => JSON.stringify(files.get(file)) !== JSON.stringify(saved.get(file));
const isDirty = () => files.size !== saved.size || [...files.keys()].some(isChanged);

function showState() {
  part('save').disabled = saveNext || !files.size || !isDirty();
  if (!busy) part('state').textContent = isDirty() ? t('workload_code.unsaved') : '';
  for (const button of list.children) button.classList.toggle('changed', Boolean(button.dataset.path) && isChanged(button.dataset.path));
}

function showList() {
  const names = [...files.keys()].sort((one, other) => one.localeCompare(other));
  list.replaceChildren(...names.map((file) => el('button', {
    type: 'button', 'data-path': file, 'aria-current': file === current ? 'true' : null, onclick: () => openFile(file),
  }, file)));
  if (!names.length) list.append(el('p', { class: 'muted small' }, t('workload_code.empty')));
  showState();
}

function openFile(file) {
  current = file;
  const content = files.get(file);
  const shown = content !== undefined && !isBinary(content);
  part('path').textContent = file;
  part('editor').hidden = !shown;
  part('binary').hidden = content === undefined || shown;
  for (const id of ['rename', 'remove']) part(id).hidden = content === undefined;
  if (shown) {
    editor.open(file, content);
    compare();
  } else if (content !== undefined) {
    part('binary').textContent = t('workload_code.binary', { size: bytes(sizeOf(content)) });
  }
  showList();
}

function firstFile() {
  const module = entrypoint.slice(0, entrypoint.lastIndexOf('.'));
  const names = [...files.keys()].sort();
  return names.find((file) => file.replace(/\.[a-z]+$/, '') === module) ?? names.find((file) => !file.startsWith('.')) ?? names[0] ?? '';
}

// The files of the newest version.
async function read() {
  const found = root.dataset.latest ? await rest('GET', `${path}/source`) : { files: {} };
  files.clear();
  for (const [file, content] of Object.entries(found.files)) files.set(file, content);
  saved = new Map(files);
}

async function load() {
  await read();
  takeKept();
  openFile(firstFile());
}

async function compare() {
  const box = part('compare');
  if (!box) return;
  if (box.checked && active === null) active = (await rest('GET', `${path}/source?version=${root.dataset.active}`)).files;
  const before = active?.[current];
  editor.diff(box.checked ? (typeof before === 'string' ? before : '') : null);
}

function compareWith(number) {
  root.dataset.active = number;
  active = null;
  const box = part('compare');
  if (!box) return;
  box.parentElement.hidden = false;
  part('compare-text').textContent = t('workload_code.compare', { n: number });
  compare();
}

async function save() {
  if (!files.size || !isDirty()) return;
  if (busy) {
    saveNext = true;
    setBusy(true, t('workload_code.save_next'));
    return;
  }
  if (isTooLarge(files)) {
    refuse(t('workload_code.too_big'));
    return;
  }
  await upload({ json: { files: Object.fromEntries(files) } }, new Map(files));
}

// `sent` are the files that the server has now; undefined after a zip, whose files are read back.
async function upload(body, sent) {
  setBusy(true, t('workload_code.saving'));
  try {
    const answer = await send('POST', `${path}/upload`, body);
    if (!answer.ok) throw await errorOf(answer);
    const found = await answer.json();
    root.dataset.latest = found.version;
    if (sent) saved = sent;
    else {
      await read();
      openFile(firstFile());
    }
    if (answer.status === 200) toast(t('workload_code.unchanged', { n: found.version }));
    else {
      setBusy(true, t('statuses.building'));
      await build(found.version);
    }
  } catch (error) {
    refuse(error.status === 401 && sent && keep() ? `${error.message} ${t('workload_code.kept')}` : error.message);
  } finally {
    setBusy(false);
  }
}

// Changes that could not be saved because the session ended survive signing in again, in this tab.
function keep() {
  try {
    sessionStorage.setItem(DRAFT, JSON.stringify([...files]));
    kept = true;
  } catch {
    kept = false; // larger than the browser stores
  }
  return kept;
}

function takeKept() {
  const draft = sessionStorage.getItem(DRAFT);
  if (!draft) return;
  sessionStorage.removeItem(DRAFT);
  files.clear();
  for (const [file, content] of JSON.parse(draft)) files.set(file, content);
}

async function watch(number) {
  setBusy(true, t('statuses.building'));
  try {
    await build(number);
  } catch (error) {
    refuse(error.message);
  } finally {
    setBusy(false);
  }
}

async function build(number) {
  const version = await showBuild(path, number, t('workload_code.build', { n: number }));
  if (version?.state === 'failed') toast(t('workload_code.failed', { n: number }), { bad: true });
  if (version?.state !== 'ready') return;
  const found = path.startsWith('jobs/') ? {} : await settled(path, number);
  if (found.phase === 'Failed') {
    toast(found.message, { bad: true });
    return;
  }
  compareWith(number);
  toast(t('workload_code.live', { n: number }));
}

function refuse(message) {
  const panel = part('build');
  panel.hidden = false;
  panel.querySelector('h2').textContent = t('workload_code.refused');
  panel.querySelector('.card-head span').replaceChildren();
  panel.querySelector('.log').textContent = message;
  panel.scrollIntoView({ block: 'nearest' });
}

function setBusy(value, text = '') {
  busy = value;
  part('state').textContent = text;
  showState();
  if (busy || !saveNext) return;
  saveNext = false;
  save();
}

// `before` is the file that is renamed.
const checkPath = (file, before = '') => {
  if (!isGoodPath(file)) return t('workload_code.bad_path');
  const others = [...files.keys()].filter((one) => one !== before);
  const taken = others.find((one) => one === file || collide(one, file));
  if (taken === undefined) return '';
  return taken === file ? t('workload_code.exists', { path: file }) : t('workload_code.collides', { path: taken });
};

part('new-file').addEventListener('click', async () => {
  const file = await ask({ title: t('workload_code.new_file'), label: t('workload_code.path'), button: t('workload_code.create'), check: (wanted) => checkPath(wanted) });
  if (file === null) return;
  files.set(file, '');
  openFile(file);
  editor.focus();
});
part('rename').addEventListener('click', async () => {
  const before = current;
  const file = await ask({ title: t('workload_code.rename'), label: t('workload_code.path'), value: before, check: (wanted) => checkPath(wanted, before) });
  if (file === null || file === before) return;
  files.set(file, files.get(before));
  files.delete(before);
  openFile(file);
});
part('remove').addEventListener('click', async () => {
  const file = current;
  if (!(await confirmed({ title: t('workload_code.sure_delete', { path: file }), text: '', button: t('workload_code.delete') }))) return;
  files.delete(file);
  openFile(firstFile());
});
part('save').addEventListener('click', save);
part('compare')?.addEventListener('change', compare);
document.addEventListener('keydown', (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 's') {
    event.preventDefault();
    save();
  }
});
addEventListener('beforeunload', (event) => {
  if (isDirty() && !kept) event.preventDefault();
});
part('download').addEventListener('click', async () => {
  const answer = await send('GET', `${path}/source`, { headers: { Accept: 'application/zip' } });
  if (answer.ok) saveAs(await answer.blob(), `${name}.zip`);
  else toast((await errorOf(answer)).message, { bad: true });
});

async function take({ files: chosen, leftOut }) {
  if (leftOut.length) toast(t('workload_code.left_out', { names: leftOut.slice(0, 3).join(', ') + (leftOut.length > 3 ? ' …' : '') }));
  if (chosen.length === 1 && chosen[0].path.endsWith('.zip')) {
    const sure = !files.size || (await confirmed({ title: chosen[0].path, text: t('workload_code.sure_zip'), button: t('workload_code.replace') }));
    if (sure) await upload({ body: chosen[0].file, headers: { 'Content-Type': 'application/zip' } });
    return;
  }
  for (const { path: file, file: data } of chosen) files.set(file, await contentOf(data));
  openFile(chosen.length === 1 ? chosen[0].path : current || firstFile());
}

for (const id of ['files', 'folder']) {
  part(id).addEventListener('change', async (event) => {
    const chosen = chosenFiles(event.target);
    event.target.value = '';
    await take(chosen);
  });
}

// Accepts files on the whole page, since browsers open a file dropped elsewhere and leave the page. The editor handles dragged text.
const drop = root.querySelector('.drop');
function onFiles(type, act) {
  document.addEventListener(type, (event) => {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    act(event);
  });
}
onFiles('dragenter', () => (drop.hidden = false));
onFiles('dragover', () => {});
onFiles('dragleave', (event) => (drop.hidden = event.relatedTarget === null)); // out of the window
onFiles('drop', async (event) => {
  drop.hidden = true;
  await take(await droppedFiles(event.dataTransfer));
});

try {
  await load();
} catch (error) {
  refuse(error.message);
}
const problem = sessionStorage.getItem(PROBLEM);
sessionStorage.removeItem(PROBLEM);
if (problem) refuse(problem);
if (location.hash === '#build' && root.dataset.latest) watch(Number(root.dataset.latest));

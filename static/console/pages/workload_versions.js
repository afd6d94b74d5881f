// Versions: build logs, roll back, cancel, download, rebuild.
import { settled, showBuild } from '../core/build.js';
import { confirmed } from '../core/dialog.js';
import { saveAs } from '../core/files.js';
import { toast } from '../core/frame.js';
import { t } from '../core/page.js';
import { errorOf, rest, send } from '../core/rest.js';

const table = document.getElementById('versions');

async function done(work) {
  try {
    await work();
  } catch (error) {
    toast(error.message, { bad: true });
  }
}

function openLog(path, number) {
  return showBuild(path, number, t('workload_versions.build', { n: number }));
}

async function activate(path, number, button) {
  button.disabled = true;
  try {
    await rest('POST', `${path}/versions/${number}/activate`);
    await settled(path, number, { exactly: true });
    location.reload();
  } finally {
    button.disabled = false;
  }
}

// The API calls the active version only.
async function run(path, number, active) {
  const agreed = await confirmed({
    title: t('workload_versions.run_title', { n: number }), text: t(active ? 'workload_versions.run_text' : 'workload_versions.run_first', { n: number, active }),
    button: t('workload_versions.run_button'), danger: false,
    action: async () => {
      await rest('POST', `${path}/versions/${number}/activate`);
      await settled(path, number, { exactly: true });
    },
  });
  if (agreed) location.assign(`${table.dataset.own}/run`);
}

async function download(path, number) {
  const answer = await send('GET', `${path}/source?version=${number}`, { headers: { Accept: 'application/zip' } });
  if (!answer.ok) throw await errorOf(answer);
  saveAs(await answer.blob(), `${path.split('/')[1]}-${number}.zip`);
}

if (table) {
  const path = table.dataset.rest;
  table.addEventListener('click', (event) => {
    const button = event.target.closest('button');
    if (!button) return;
    const number = Number(button.closest('tr').dataset.version);
    if ('log' in button.dataset) done(() => openLog(path, number));
    if ('activate' in button.dataset) done(() => activate(path, number, button));
    if ('run' in button.dataset) done(() => run(path, number, table.dataset.active));
    if ('download' in button.dataset) done(() => download(path, number));
    if ('cancel' in button.dataset) done(async () => { await rest('POST', `${path}/versions/${number}/cancel`); location.reload(); });
  });
  document.getElementById('rebuild')?.addEventListener('click', () => done(async () => {
    const version = await rest('POST', `${path}/rebuild`);
    await openLog(path, version.version);
    location.reload();
  }));
  const building = table.querySelector('[data-cancel]')?.closest('tr');
  if (building) done(async () => { if (await openLog(path, Number(building.dataset.version))) location.reload(); });
}

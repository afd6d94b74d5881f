// The panel that shows a build log while the build runs, and afterwards.
import { badge, el } from './dom.js';
import { t } from './page.js';
import { follow, rest } from './rest.js';

let following = null;

// Shows the log of a version in #build and resolves to the version once it has ended; null if another log was opened meanwhile.
export async function showBuild(path, number, title) {
  following?.abort();
  following = new AbortController();
  const { signal } = following;
  const panel = document.getElementById('build');
  const log = panel.querySelector('.log');
  const state = panel.querySelector('.card-head span');
  panel.hidden = false;
  panel.querySelector('h2').textContent = title;
  log.textContent = '';
  for (const note of panel.querySelectorAll('.notice')) note.remove();
  state.replaceChildren(badge('building', t('statuses.building')));
  panel.scrollIntoView({ block: 'nearest' });
  await follow(`${path}/versions/${number}?follow=1`, ({ event, data }) => {
    if (event !== 'message') return;
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.append(`${data}\n`);
    if (atEnd) log.scrollTop = log.scrollHeight;
  }, { signal });
  if (signal.aborted) return null;
  const version = await rest('GET', `${path}/versions/${number}`, { signal });
  state.replaceChildren(badge(version.state, t(`statuses.${version.state}`)));
  if (version.message && !log.textContent.includes(version.message)) log.append(`${version.message}\n`);
  log.before(...version.warnings.map((text) => el('p', { class: 'notice warn' }, text)));
  log.scrollTop = log.scrollHeight;
  return version;
}

// Waits until `version` (or a newer one, unless `exactly`) serves or the workload failed; keeps the badge of the page current. Returns the workload.
export async function settled(path, version, { exactly = false } = {}) {
  for (;;) {
    const found = await rest('GET', path);
    document.getElementById('phase')?.replaceChildren(badge(found.phase, t(`phases.${found.phase}`)));
    if (found.phase === 'Failed' || ((exactly ? found.active_version === version : found.active_version >= version) && found.phase !== 'Building' && found.phase !== 'Deploying')) return found;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

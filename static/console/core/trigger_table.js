// Tables of triggers: the switch and "fire now".
import { toast } from './frame.js';
import { page, t } from './page.js';
import { rest } from './rest.js';

document.addEventListener('click', (event) => {
  const row = event.target.closest('[data-trigger]');
  const toggle = event.target.closest('[data-toggle]');
  const fire = event.target.closest('[data-fire]');
  if (row && toggle) change(row.dataset.trigger, toggle);
  else if (row && fire) fireNow(row.dataset.trigger, fire);
});

async function change(name, toggle) {
  const enabled = toggle.getAttribute('aria-checked') !== 'true';
  toggle.disabled = true;
  try {
    const item = await rest('PATCH', `triggers/${name}`, { json: { enabled } });
    toggle.setAttribute('aria-checked', String(item.enabled));
    const state = toggle.closest('tr')?.querySelector('.c-state');
    if (state) showState(state, item);
  } catch (error) {
    toast(error.message, { bad: true });
  } finally {
    toggle.disabled = false;
  }
}

function showState(cell, item) {
  const kind = item.active ? 'active' : item.enabled ? 'broken' : 'off';
  const status = document.createElement('span');
  status.className = `status status-${{ active: 'succeeded', broken: 'failed', off: 'off' }[kind]}`;
  status.textContent = t(`triggers.${kind}`);
  const sub = document.createElement('span');
  sub.className = 'sub';
  sub.textContent = item.enabled ? item.message : '';
  cell.replaceChildren(status, ...(sub.textContent ? [sub] : []));
}

// Fires and says where the call can be seen.
export async function fireNow(name, button) {
  button.disabled = true;
  try {
    const item = await rest('GET', `triggers/${name}`);
    const fired = await rest('POST', `triggers/${name}/fire`, { json: null });
    toast(t('triggers.fired'), { href: `/funcs/${page.namespace}/functions/${item.function_ref}/calls/${fired.id}`, label: t('triggers.see_call') });
  } catch (error) {
    toast(error.message, { bad: true });
  } finally {
    button.disabled = false;
  }
}

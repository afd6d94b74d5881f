// One trigger: create, edit, fire, delete; shows a schedule in words.
import '../core/frame.js';
import { confirmed } from '../core/dialog.js';
import { guard, submitting } from '../core/forms.js';
import { page, t } from '../core/page.js';
import { rest } from '../core/rest.js';
import { schedule } from '../core/schedule.js';
import { fireNow } from '../core/trigger_table.js';

const form = document.getElementById('trigger');
const existing = page.data.item;
const list = `/funcs/${page.namespace}/triggers`;

const typeOf = () => existing?.type ?? form.elements.type.value;

function showType() {
  for (const part of form.querySelectorAll('[data-type]')) part.hidden = part.dataset.type !== typeOf();
}

function valueOf(control) {
  if (control.type === 'checkbox') return control.checked;
  const text = control.value.trim();
  if (!('number' in control.dataset)) return text;
  if (text === '') return null;
  return /^\d+$/.test(text) ? Number(text) : text;
}

function bodyOf() {
  const body = {};
  for (const control of form.querySelectorAll('[name]')) {
    if (control.type === 'radio' || control.closest('[data-type]')?.hidden) continue;
    body[control.name] = valueOf(control);
  }
  if (typeOf() === 'http') {
    body.methods = [...form.querySelectorAll('[data-method]:checked')].map((box) => box.dataset.method);
    const origins = form.querySelector('[data-origins]').value.split(/[\s,]+/).filter(Boolean);
    body.cors = origins.length ? { ...existing?.cors, allow_origins: origins } : null;
  }
  if (body.amqp_url === '') delete body.amqp_url;
  if (!existing) body.type = typeOf();
  return body;
}

const first = JSON.stringify(bodyOf());
let done = false;
guard(() => !done && JSON.stringify(bodyOf()) !== first);

function showKey(key) {
  document.getElementById('key').hidden = false;
  document.getElementById('key-text').textContent = key;
  document.getElementById('key-copy').dataset.copy = key;
  document.getElementById('key-go').focus();
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  submitting(form, async () => {
    const headers = page.data.etag ? { 'If-Match': page.data.etag } : {};
    const saved = existing
      ? await rest('PATCH', `triggers/${existing.name}`, { json: bodyOf(), headers })
      : await rest('POST', 'triggers', { json: bodyOf() });
    done = true;
    if (saved.api_key) showKey(saved.api_key);
    else location.assign(existing ? location.href : `${list}/${saved.name}`);
  });
});

for (const radio of form.querySelectorAll('[name="type"]')) radio.addEventListener('change', showType);
showType();
if (form.elements.schedule) schedule(form, document.getElementById('explained'));

document.getElementById('fire')?.addEventListener('click', (event) => fireNow(existing.name, event.currentTarget));
document.getElementById('rotate')?.addEventListener('click', async () => {
  let key = '';
  const agreed = await confirmed({
    title: t('trigger.rotate'), text: t('trigger.rotate_text'), button: t('trigger.rotate'),
    action: async () => { key = (await rest('PATCH', `triggers/${existing.name}`, { json: { rotate_key: true } })).api_key; },
  });
  if (agreed) showKey(key);
});
document.getElementById('delete')?.addEventListener('click', async (event) => {
  const { name } = event.currentTarget.dataset;
  const agreed = await confirmed({
    title: t('trigger.delete_sure', { name }), text: t('trigger.delete_text'), button: t('trigger.delete'), name,
    nameLabel: t('trigger.delete_name', { name }), action: () => rest('DELETE', `triggers/${name}`),
  });
  if (!agreed) return;
  done = true;
  location.assign(list);
});

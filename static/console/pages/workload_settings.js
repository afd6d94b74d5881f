// Settings of one function, service or job; deleting it.
import { toast } from '../core/frame.js';
import { confirmed } from '../core/dialog.js';
import { guard, submitting } from '../core/forms.js';
import { page, t } from '../core/page.js';
import { pairs } from '../core/pairs.js';
import { rest, send, errorOf } from '../core/rest.js';
import { restPath, watch } from '../core/watch.js';

const form = document.getElementById('settings');
const saved = document.getElementById('saved');
const before = page.data.item;
const env = pairs(form.querySelector('[data-pairs="env_vars"]'), before.env_vars);
const secrets = pairs(form.querySelector('[data-pairs="secret_env"]'));
let etag = page.data.etag;

for (const button of form.querySelectorAll('[data-add]')) {
  button.addEventListener('click', () => (button.dataset.add === 'env_vars' ? env : secrets).add());
}

// A number, or the unchanged text, so that the API says what it expected.
function valueOf(control) {
  const text = control.value;
  if (!('number' in control.dataset)) return text;
  if (text.trim() === '') return null;
  return /^-?\d+$/.test(text.trim()) ? Number(text) : text;
}

function changes() {
  const found = {};
  for (const control of form.querySelectorAll('[name]')) {
    const value = valueOf(control);
    const known = before[control.name] ?? (control.dataset.number === undefined ? '' : null);
    if (value !== known) found[control.name] = value === '' && control.name === 'entrypoint' ? null : value;
  }
  if (JSON.stringify(env.value()) !== JSON.stringify(before.env_vars)) found.env_vars = env.value();
  if (Object.keys(secrets.value()).length) found.secret_env = secrets.value();
  return found;
}

const changed = () => Object.keys(changes()).length > 0;
guard(changed);
form.addEventListener('input', () => { saved.textContent = changed() ? t('workload_settings.unsaved') : ''; });

async function save() {
  const body = changes();
  if (!Object.keys(body).length) {
    saved.textContent = t('workload_settings.nothing');
    return;
  }
  const answer = await send('PATCH', restPath, { json: body, headers: { 'If-Match': etag } });
  if (answer.status === 412) throw Object.assign(await errorOf(answer), { message: t('workload_settings.conflict'), details: [] });
  if (!answer.ok) throw await errorOf(answer);
  etag = answer.headers.get('ETag');
  Object.assign(before, await answer.json());
  form.querySelector('[data-pairs="secret_env"]').replaceChildren();
  saved.textContent = t('workload_settings.saved');
  toast(t('workload_settings.saved'));
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  submitting(form, save);
});
document.addEventListener('keydown', (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === 's') {
    event.preventDefault();
    form.requestSubmit();
  }
});

const remove = document.getElementById('delete');
remove.addEventListener('click', async () => {
  const { name } = remove.dataset;
  const agreed = await confirmed({
    title: t('workload_settings.delete_sure', { name }),
    text: t('workload_settings.delete_text'),
    button: t('workload_settings.delete'),
    name,
    nameLabel: t('workload_settings.delete_name', { name }),
    action: () => rest('DELETE', restPath),
  });
  if (agreed) location.assign(`/funcs/${page.namespace}`);
});

watch();

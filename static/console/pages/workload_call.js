// One call: cancel or repeat it; current while it runs.
import { toast } from '../core/frame.js';
import { t } from '../core/page.js';
import { rest } from '../core/rest.js';

const call = document.getElementById('call');
const path = call.dataset.rest;
const result = document.getElementById('result');

try {
  if (result) result.textContent = JSON.stringify(JSON.parse(result.textContent), null, 2);
} catch {
  // a text, shown as it is
}

async function press(work) {
  try {
    await work();
    location.reload();
  } catch (error) {
    toast(error.message, { bad: true });
  }
}

document.getElementById('cancel')?.addEventListener('click', () => press(() => rest('DELETE', path)));
document.getElementById('retry')?.addEventListener('click', () => press(async () => {
  await rest('POST', `${path}/retry`);
  toast(t('workload_call.retried'));
}));

async function watch() {
  const found = await rest('GET', path).catch(() => null);
  if (found && found.status !== call.dataset.status) location.reload();
  else setTimeout(watch, 1000);
}
if (['queued', 'running'].includes(call.dataset.status)) watch();

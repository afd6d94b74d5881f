// One tenant: suspends and resumes it or one of its workloads, and changes its limits.
import { toast } from '../core/frame.js';
import { ask } from '../core/dialog.js';
import { guard, submitting } from '../core/forms.js';
import { page, t } from '../core/page.js';
import { rest } from '../core/rest.js';

const tenant = `/v1/operator/tenants/${page.data.tenant}`;
const form = document.getElementById('limits-form');

// The path and name of what a button switches: a workload in its row, else the tenant.
function targetOf(button) {
  const { workload } = button.closest('[data-workload]')?.dataset ?? {};
  return workload ? { path: `${tenant}/${workload}`, name: workload.split('/')[1] } : { path: tenant, name: page.data.tenant };
}

async function flip(button) {
  const { path, name } = targetOf(button);
  const verb = button.dataset.switch;
  let json;
  if (verb === 'suspend') {
    const reason = await ask({
      title: t('operator_tenant.suspend_sure', { name }), label: t('operator_tenant.reason'), button: t('operator_tenant.suspend'),
    });
    if (reason === null) return;
    json = { reason };
  }
  button.disabled = true;
  try {
    await rest('POST', `${path}/${verb}`, { json });
    location.reload();
  } catch (error) {
    toast(error.message, { bad: true });
    button.disabled = false;
  }
}

document.addEventListener('click', (event) => {
  const button = event.target.closest('[data-switch]');
  if (button) flip(button);
});

// An empty value is the default. Other values are sent unchanged if they are not numbers, so that the API says what it expected.
function limits() {
  const found = {};
  for (const { name, value } of form.querySelectorAll('input')) {
    const text = value.trim();
    if (text) found[name] = /^\d+$/.test(text) ? Number(text) : text;
  }
  return found;
}

let saved = JSON.stringify(limits());
guard(() => JSON.stringify(limits()) !== saved);
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const done = await submitting(form, async () => {
    await rest('PUT', `${tenant}/limits`, { json: limits() });
    saved = JSON.stringify(limits());
  });
  if (done) location.reload();
});

// All tenants: keeps the queues current, and revokes tokens.
import { toast } from '../core/frame.js';
import { el } from '../core/dom.js';
import { submitting } from '../core/forms.js';
import { t } from '../core/page.js';
import { rest } from '../core/rest.js';
import { showTimes } from '../core/time.js';

const EVERY_MS = 5000;
const JWT = /^[\w-]+\.[\w-]+\.[\w-]*$/;

async function refreshQueues() {
  if (document.hidden) return;
  const found = await rest('GET', '/v1/operator/queues').catch(() => []); // shown again at the next turn
  for (const { queue, waiting, due_at: due } of found) {
    const row = document.querySelector(`[data-queue="${CSS.escape(queue)}"]`);
    if (!row) continue;
    row.cells[1].textContent = waiting;
    row.cells[2].replaceChildren(due ? el('time', { datetime: due, 'data-time': true }) : '–');
  }
  showTimes();
}

setInterval(refreshQueues, EVERY_MS);

// A whole token, with or without "Bearer", or its jti.
function revocationOf(form) {
  const text = form.elements.token.value.trim().replace(/^Bearer\s+/i, '');
  return { [JWT.test(text) ? 'token' : 'jti']: text, reason: form.elements.reason.value.trim() };
}

const form = document.getElementById('revoke');
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const revoked = await submitting(form, async () => {
    const found = await rest('POST', '/v1/operator/revoked-tokens', { json: revocationOf(form) });
    toast(t('operator.revoked', { jti: found.jti }));
  });
  if (revoked) location.reload();
});

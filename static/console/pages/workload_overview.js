// The overview of one function or service.
import { toast } from '../core/frame.js';
import '../core/trigger_table.js';
import { page, t } from '../core/page.js';
import { rest } from '../core/rest.js';
import { ownPath, watch } from '../core/watch.js';

const name = ownPath.split('/').pop();
const message = document.getElementById('message');
let version = document.getElementById('version').textContent;

watch({
  onChange: (item) => {
    message.textContent = item.message;
    message.hidden = !item.message || item.message === page.idle;
    message.className = `notice${item.phase === 'Failed' || item.latest_state === 'failed' ? ' bad' : item.phase === 'Pending' ? ' warn' : ''}`;
    document.getElementById('ready').textContent = item.ready_instances;
    const why = t(`workload_overview.why_${item.instances_state}`);
    if (document.getElementById('why').textContent !== why) document.getElementById('why').textContent = why;
    const now = item.active_version === null ? version : String(item.active_version);
    if (now !== version) document.getElementById('version').textContent = now;
    version = now;
  },
  onGone: () => location.assign(ownPath.split('/').slice(0, 3).join('/')),
});

document.getElementById('add-http')?.addEventListener('click', async (event) => {
  event.target.disabled = true;
  try {
    await rest('POST', 'triggers', { json: { name, type: 'http', function_ref: name } });
    location.reload();
  } catch (error) {
    event.target.disabled = false;
    const taken = error.code === 'already_exists';
    toast(taken ? t('workload_overview.name_taken') : error.message, { bad: true });
  }
});

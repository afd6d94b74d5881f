// The overview of a job.
import { toast } from '../core/frame.js';
import { rest } from '../core/rest.js';
import { restPath, watch } from '../core/watch.js';

const again = document.getElementById('run-again');
let shown = null;

watch({
  onChange: (item) => {
    const state = `${item.phase} ${item.message}`;
    if (shown !== null && shown !== state && !['Pending', 'Building', 'Running'].includes(item.phase)) location.reload();
    shown = state;
  },
});

again.addEventListener('click', async () => {
  again.disabled = true;
  try {
    await rest('PATCH', restPath, { json: { run_id: Number(again.dataset.run) + 1 } });
    location.reload();
  } catch (error) {
    again.disabled = false;
    toast(error.message, { bad: true });
  }
});

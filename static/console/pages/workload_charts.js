// Charts of calls, errors and durations, which stay current.
import { drawCalls, drawDurations } from '../core/series.js';
import { el, milliseconds } from '../core/dom.js';
import '../core/frame.js';
import { page, t } from '../core/page.js';
import { rest } from '../core/rest.js';

const EVERY_MS = 15_000;
const { rest: path, window: span } = document.getElementById('charts').dataset;
const number = new Intl.NumberFormat(page.language);
const percent = new Intl.NumberFormat(page.language, { style: 'percent', maximumFractionDigits: 2 });

function figure(name, value) {
  return el('div', {}, el('dt', {}, name), el('dd', { class: 'number' }, value));
}

let shown = null;

function show(series) {
  shown = series;
  document.getElementById('figures').replaceChildren(
    figure(t('workload_charts.n_calls'), number.format(series.calls)),
    figure(t('workload_charts.n_errors'), number.format(series.errors)),
    figure(t('workload_charts.rate'), series.calls ? percent.format(series.errors / series.calls) : '–'),
    figure('p50', milliseconds(series.p50_ms)), figure('p95', milliseconds(series.p95_ms)), figure('p99', milliseconds(series.p99_ms)),
  );
  drawCalls(document.getElementById('chart-calls'), series.slots, series.slot_sec);
  drawDurations(document.getElementById('chart-durations'), series.slots, series.slot_sec);
  document.getElementById('state').textContent = series.calls ? '' : t('workload_charts.none');
}

addEventListener('resize', () => shown && show(shown));

async function refresh() {
  try {
    if (!document.hidden) show(await rest('GET', `${path}/stats?window=${span}`));
  } catch (error) {
    document.getElementById('state').textContent = error.message;
  }
  setTimeout(refresh, EVERY_MS);
}

refresh();

// Charts as plain SVG: bars of calls with their errors, lines of durations. Each slot has a tooltip; the figures are also in a table.
import { el, milliseconds, svg } from './dom.js';
import { locale, t } from './page.js';

const HEIGHT = 180;
const LEFT = 52;
const BOTTOM = 22;
const TOP = 8;

const clockOf = (slotSec) => new Intl.DateTimeFormat(locale, slotSec >= 3600 ? { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' } : { hour: '2-digit', minute: '2-digit' });

export function drawCalls(parent, slots, slotSec) {
  const most = niceMost(Math.max(...slots.map((slot) => slot.calls), 2));
  const { chart, x, y, width } = frame(parent, slots, slotSec, most, (value) => String(value));
  slots.forEach((slot, index) => {
    if (!slot.calls) return;
    const left = x(index) - width / 2 + 1;
    const wide = Math.max(width - 2, 1);
    chart.append(svg('rect', { class: 'bar-calls', x: left, y: y(slot.calls), width: wide, height: y(0) - y(slot.calls), rx: 1.5 }));
    if (slot.errors) chart.append(svg('rect', { class: 'bar-errors', x: left, y: y(slot.errors), width: wide, height: y(0) - y(slot.errors), rx: 1.5 }));
  });
  finish(parent, chart, slots, slotSec, x, width);
}

export function drawDurations(parent, slots, slotSec) {
  const most = niceMost(Math.max(...slots.map((slot) => slot.p99_ms ?? 0), 1));
  const { chart, x, y, width } = frame(parent, slots, slotSec, most, milliseconds);
  for (const name of ['p50', 'p95', 'p99']) {
    let path = '';
    let pen = 'M';
    slots.forEach((slot, index) => {
      const value = slot[`${name}_ms`];
      if (value === null || value === undefined) {
        pen = 'M';
        return;
      }
      path += `${pen}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = 'L';
      chart.append(svg('circle', { class: `dot-${name}`, cx: x(index), cy: y(value), r: 2 }));
    });
    if (path) chart.append(svg('path', { class: `line-${name}`, d: path }));
  }
  finish(parent, chart, slots, slotSec, x, width);
  parent.append(el('p', { class: 'legend small' }, ...['p50', 'p95', 'p99'].map((name) => el('span', { class: `key key-${name}` }, name))));
}

// As wide as its place, so that the texts keep their size on a phone.
function frame(parent, slots, slotSec, most, label) {
  const full = Math.max(parent.clientWidth, 240);
  const width = (full - LEFT) / slots.length;
  const x = (index) => LEFT + width * (index + 0.5);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
  const chart = svg('svg', { viewBox: `0 0 ${full} ${HEIGHT}`, role: 'img', 'aria-hidden': 'true' });
  for (const share of [0, 0.5, 1]) {
    const at = y(most * share);
    chart.append(svg('line', { class: 'grid', x1: LEFT, x2: full, y1: at, y2: at }), svg('text', { class: 'axis', x: LEFT - 8, y: at + 4, 'text-anchor': 'end' }, label(most * share)));
  }
  const clock = clockOf(slotSec);
  const step = Math.max(1, Math.ceil((slots.length * 120) / full));
  slots.forEach((slot, index) => {
    if (index % step !== Math.floor(step / 2)) return;
    const isLast = x(index) > full - 50; // a text in its middle would be cut off
    chart.append(svg('text', { class: 'axis', x: isLast ? full : x(index), y: HEIGHT - 5, 'text-anchor': isLast ? 'end' : 'middle' }, clock.format(new Date(slot.time))));
  });
  return { chart, x, y, width };
}

function finish(parent, chart, slots, slotSec, x, width) {
  const clock = clockOf(slotSec);
  slots.forEach((slot, index) => {
    const text = t('workload_charts.at', { time: clock.format(new Date(slot.time)), calls: slot.calls, errors: slot.errors, p50: milliseconds(slot.p50_ms), p95: milliseconds(slot.p95_ms), p99: milliseconds(slot.p99_ms) });
    chart.append(svg('rect', { class: 'hover', x: x(index) - width / 2, y: 0, width, height: HEIGHT - BOTTOM }, svg('title', {}, text)));
  });
  parent.replaceChildren(chart);
}

// The next 1, 2 or 5 times a power of ten, so that the middle of the axis is a short number.
function niceMost(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 10].map((factor) => factor * power).find((most) => most >= value);
}

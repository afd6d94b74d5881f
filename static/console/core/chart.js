// Small SVG charts.
import { svg } from './dom.js';

// Bars of calls with errors on top. slots: [[calls, errors], …].
export function sparkline(slots, { width = 96, height = 24, label = '' } = {}) {
  const most = Math.max(1, ...slots.map(([calls]) => calls));
  const step = width / slots.length;
  const bars = slots.flatMap(([calls, errors], index) => {
    const tall = calls ? Math.max(2, (calls / most) * height) : 1;
    const bad = calls ? (errors / calls) * tall : 0;
    const x = (index * step).toFixed(1);
    const wide = Math.max(1, step - 1.5).toFixed(1);
    return [
      svg('rect', { x, y: (height - tall).toFixed(1), width: wide, height: tall.toFixed(1), class: calls ? 'bar' : 'bar none' }),
      bad ? svg('rect', { x, y: (height - Math.max(2, bad)).toFixed(1), width: wide, height: Math.max(2, bad).toFixed(1), class: 'bar bad' }) : null,
    ];
  });
  return svg('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label }, ...bars);
}

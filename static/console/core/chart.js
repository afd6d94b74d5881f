// Small SVG charts. The macro `spark` of parts.html draws the same on the server.
import { el, svg } from './dom.js';

// Bars of calls, with errors in front. slots: twelve pairs [calls, errors].
export function sparkline(slots, label) {
  if (!slots.some(([calls]) => calls)) return el('span', { class: 'spark', role: 'img', 'aria-label': label }); // drawn sooner than an <svg>
  const most = Math.max(1, ...slots.map(([calls]) => calls));
  const bars = (index) => slots.map((slot, at) => (slot[index] ? `M${at * 8 + 4} 23V${Math.round((23 - Math.max(2, (slot[index] * 22) / most)) * 10) / 10}` : '')).join('');
  return svg('svg', { class: 'spark', viewBox: '0 0 96 24', width: 96, height: 24, role: 'img', 'aria-label': label },
    ...['tick', 'tick bad'].map((kind, index) => bars(index) && svg('path', { class: kind, d: bars(index) })));
}

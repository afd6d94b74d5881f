// Creates elements, and writes numbers in them. Text is always inserted as text, never as HTML.
import { once, page } from './page.js';

const SVG = 'http://www.w3.org/2000/svg';

// el('a', {class: 'button', href: '/x', onclick: f}, 'text', child, …); null, false and empty children are left out.
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' && 'value' in element) element.value = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false && child !== ''));
  return element;
}

const ICONS = {
  copy: 'M7 7h9v9H7zM13 7V4H4v9h3',
  trash: 'M4 6h12M8 6V4h4v2M6 6l.7 10h6.6L14 6',
  http: 'M8 12 5.5 14.5A2.5 2.5 0 0 1 2 11L5 8a2.5 2.5 0 0 1 3.5 0M12 8l2.5-2.5A2.5 2.5 0 0 1 18 9l-3 3a2.5 2.5 0 0 1-3.5 0',
  cron: 'M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14M10 6v4l2.5 2',
  event: 'M3 5h14v10H3zM3.5 6l6.5 5.5L16.5 6',
  play: 'M7 5v10l8-5z',
  close: 'm5 5 10 10M15 5 5 15',
};

export function icon(name) {
  return svg('svg', { class: 'icon', viewBox: '0 0 20 20', 'aria-hidden': 'true' }, svg('path', { d: ICONS[name] }));
}

export function badge(phase, text) {
  return el('span', { class: `badge phase-${phase.toLowerCase()}` }, el('span', { class: 'dot', 'aria-hidden': 'true' }), text);
}

const UNITS = page.language === 'ru' ? { sizes: ['Б', 'КБ', 'МБ', 'ГБ'], ms: 'мс', s: 'с' } : { sizes: ['B', 'KB', 'MB', 'GB'], ms: 'ms', s: 's' };
const [two, three] = [2, 3].map((digits) => once(() => new Intl.NumberFormat(page.language, { maximumSignificantDigits: digits, useGrouping: false })));

export function bytes(size) {
  for (const unit of UNITS.sizes.slice(0, -1)) {
    if (size < 1024) return `${three().format(size)}\u00a0${unit}`;
    size /= 1024;
  }
  return `${three().format(size)}\u00a0${UNITS.sizes.at(-1)}`;
}

export function milliseconds(value) {
  if (value === null || value === undefined) return '–';
  return value < 1000 ? `${three().format(value)}\u00a0${UNITS.ms}` : `${three().format(value / 1000)}\u00a0${UNITS.s}`;
}

export function percent(share) {
  return `${two().format(share)}\u00a0%`;
}

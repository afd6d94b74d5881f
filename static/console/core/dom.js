// Elements. Text always goes in as text, never as HTML.

const SVG = 'http://www.w3.org/2000/svg';

// el('a', {class: 'button', href: '/x', onclick: f}, 'text', child, …); null and false children are left out.
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
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function badge(phase, text) {
  return el('span', { class: `badge phase-${phase.toLowerCase()}` }, el('span', { class: 'dot', 'aria-hidden': 'true' }), text);
}

export function bytes(size) {
  for (const unit of ['B', 'KB', 'MB']) {
    if (size < 1024) return `${Number(size.toPrecision(3))} ${unit}`;
    size /= 1024;
  }
  return `${Number(size.toPrecision(3))} GB`;
}

export function milliseconds(value) {
  if (value === null || value === undefined) return '–';
  return value < 1000 ? `${Number(value.toPrecision(3))} ms` : `${Number((value / 1000).toPrecision(3))} s`;
}

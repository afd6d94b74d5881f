// Keeps the head of a function's, service's or job's page current.
import { badge } from './dom.js';
import { page, t } from './page.js';
import { follow } from './rest.js';

const [, , , kinds, name] = location.pathname.split('/');
const key = `${kinds.slice(0, -1)}/${name}`;
let phase = '';

// Calls `onChange(item)` when the page's resource changes, with its item in the list of the namespace; `onGone()` when it has been deleted.
export function watch({ onChange = () => {}, onGone = () => {} } = {}) {
  follow('overview?follow=1', ({ event, data }) => {
    if (event === 'gone' && JSON.parse(data).includes(key)) onGone();
    if (event !== 'items') return;
    const item = JSON.parse(data).find((one) => `${one.kind}/${one.name}` === key);
    if (!item) return;
    if (item.phase !== phase) document.getElementById('phase').replaceChildren(badge(item.phase, t(`phases.${item.phase}`)));
    phase = item.phase;
    onChange(item);
  }).catch(() => {}); // a session that has ended shows at the next click
}

export const restPath = `${kinds}/${name}`;
export const ownPath = `/funcs/${page.namespace}/${kinds}/${name}`;

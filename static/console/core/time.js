// Times for people, in their language and zone.
import { locale, once } from './page.js';

const relative = once(() => new Intl.RelativeTimeFormat(locale, { numeric: 'auto', style: 'short' }));
const exact = once(() => new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' }));
const PARTS = { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' };
const minutes = once(() => new Intl.DateTimeFormat(locale, PARTS));
const seconds = once(() => new Intl.DateTimeFormat(locale, { ...PARTS, second: '2-digit' }));
const lines = once(() => new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23' }));
const STEPS = [['second', 60], ['minute', 60], ['hour', 24], ['day', 30], ['month', 12], ['year', Infinity]];

// "3 min. ago", "in 2 hr."
export function ago(moment, now = Date.now()) {
  let amount = (new Date(moment).getTime() - now) / 1000;
  for (const [unit, size] of STEPS) {
    if (Math.abs(amount) < size) return relative().format(Math.round(amount), unit);
    amount /= size;
  }
  return '';
}

// "31 Jan, 09:26"; with the year if it is another one.
export function clock(moment, { withSeconds = false } = {}) {
  const date = new Date(moment);
  if (date.getFullYear() !== new Date().getFullYear()) return exact().format(date);
  return (withSeconds ? seconds() : minutes()).format(date);
}

// "09:26:31.123", for a line of a log.
export function lineClock(moment) {
  return lines().format(new Date(moment));
}

function textOf(moment, { ago: isAgo, time }) {
  if (isAgo !== undefined) return ago(moment);
  return time === 'line' ? lineClock(moment) : clock(moment, { withSeconds: time === 'seconds' });
}

// Fills <time data-ago> and <time data-time> (also data-time="seconds" or "line") elements; call it for those that a script adds.
export function showTimes(root = document) {
  for (const item of root.querySelectorAll('time[data-ago], time[data-time]')) {
    const moment = new Date(item.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    const text = textOf(moment, item.dataset);
    if (item.textContent !== text) item.textContent = text;
    item.title ||= 'ago' in item.dataset ? exact().format(moment) : item.dateTime;
  }
}

setInterval(() => showTimes(), 15_000);

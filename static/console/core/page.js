// Data from the server for the page's script: namespace, key of the session, language, texts, and `data` of this page.

const block = document.getElementById('page-data');
export const page = block ? JSON.parse(block.textContent) : { namespace: '', key: '', language: 'en', texts: {}, data: {} };

// Locale of numbers and times: the reader's variant of the language (en-GB), if the browser has one.
export const locale = navigator.languages?.find((one) => one.split('-')[0] === page.language) ?? page.language;

// The text of `group.name`, with {placeholders} filled in.
export function t(key, values = {}) {
  const [group, name] = key.split('.');
  const found = page.texts[group]?.[name];
  if (found === undefined) throw new Error(`no text ${key}`);
  return fill(found, values);
}

// The form of a text that fits the number: the dictionary lists one (English: 2, Russian: 3 forms).
export function tn(key, number, values = {}) {
  const [group, name] = key.split('.');
  return fill(page.texts[group][name][formOf(number)], { n: number, ...values });
}

function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));
}

function formOf(number) {
  if (page.language !== 'ru') return number === 1 ? 0 : 1;
  if (number % 10 === 1 && number % 100 !== 11) return 0;
  return [2, 3, 4].includes(number % 10) && ![12, 13, 14].includes(number % 100) ? 1 : 2;
}

// The function that makes a value on its first call and returns the same one afterwards: formats take 40 ms, which would delay the page.
export function once(make) {
  let made;
  return () => (made ??= make());
}

// Calls `act` when the browser has drawn the page, at once in a tab that is not shown.
export function afterPaint(act) {
  if (document.hidden) act();
  else requestAnimationFrame(() => setTimeout(act));
}

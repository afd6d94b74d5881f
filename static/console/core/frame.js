// Runs on every page: menus, copy buttons, times in the reader's zone.
import { afterPaint, t } from './page.js';
import { showTimes } from './time.js';

function closeMenus(except) {
  for (const menu of document.querySelectorAll('details.menu[open]')) if (menu !== except) menu.open = false;
}

document.addEventListener('click', (event) => {
  closeMenus(event.target.closest('details.menu'));
  const button = event.target.closest('[data-copy]');
  if (button) copy(button);
});
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  const open = document.querySelector('details.menu[open]');
  closeMenus(null);
  open?.querySelector('summary').focus();
});

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
  } catch {
    selectText(button.parentElement.querySelector('code, pre') ?? button.parentElement); // without https there is no clipboard
    return;
  }
  button.classList.add('done');
  toast(t('ui.copied'));
  setTimeout(() => button.classList.remove('done'), 1500);
}

function selectText(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}

// A short message that goes away by itself; `bad` ones stay until they are clicked. `href` with `label` adds a link.
export function toast(text, { bad = false, href = '', label = '' } = {}) {
  const note = document.createElement('div');
  note.className = bad ? 'toast bad' : 'toast';
  note.textContent = text;
  if (href) {
    const link = document.createElement('a');
    Object.assign(link, { href, textContent: label });
    note.append(' ', link);
  }
  note.addEventListener('click', () => note.remove());
  document.getElementById('toasts').append(note);
  if (!bad) setTimeout(() => note.remove(), href ? 8000 : 2500);
}

afterPaint(() => {
  showTimes();
  // On a narrow screen, tabs scroll: the current one must be seen.
  for (const tab of document.querySelectorAll('nav [aria-current]')) tab.scrollIntoView({ inline: 'center', block: 'nearest' });
});

// A new function, service or job: creates it, uploads the starter, and opens its code with the build log.
import '../core/frame.js';
import { page, t } from '../core/page.js';
import { rest } from '../core/rest.js';

const form = document.getElementById('create');
const starters = JSON.parse(document.getElementById('starters').textContent);
const select = document.getElementById('starter');
const state = document.getElementById('state');
const value = (name) => form.elements[name].value;
const chosen = () => starters.runtimes[value('runtime')].find((item) => item.name === select.value);

function showStarters() {
  select.replaceChildren(...starters.runtimes[value('runtime')].map((item) => new Option(item.name, item.name, false, item.name === starters.chosen)));
  showAbout();
}

function showAbout() {
  document.getElementById('about').textContent = chosen().about || Object.keys(chosen().files).join(', ');
  form.querySelector('[data-for="function"]').hidden = value('kind') !== 'function';
}

function showProblem(error) {
  for (const note of form.querySelectorAll('.error')) note.hidden = true;
  for (const control of form.querySelectorAll('[aria-invalid]')) control.removeAttribute('aria-invalid');
  const problem = document.getElementById('problem');
  problem.hidden = true;
  const details = error?.details ?? [];
  for (const { field, message } of details) {
    const note = document.getElementById(`error-${field}`);
    if (!note) continue;
    note.textContent = message;
    note.hidden = false;
    form.elements[field].setAttribute?.('aria-invalid', 'true');
  }
  if (error && (!details.length || [...form.querySelectorAll('.error')].every((note) => note.hidden))) {
    problem.textContent = error.message;
    problem.hidden = false;
  }
}

async function create() {
  const [kind, name, runtime] = ['kind', 'name', 'runtime'].map(value);
  const path = `${kind}s/${name.trim()}`;
  state.textContent = t('create.creating');
  await rest('POST', `${kind}s`, { json: { name: name.trim(), runtime } });
  const code = `/funcs/${page.namespace}/${path}/code`;
  const files = filesFor(name.trim());
  try {
    if (kind === 'function' && form.elements.http.checked) {
      await rest('POST', 'triggers', { json: { name: name.trim(), type: 'http', function_ref: name.trim() } });
    }
    state.textContent = t('create.uploading');
    await rest('POST', `${path}/upload`, { json: { files } });
  } catch (error) {
    // It exists now, so its own page shows the error and the files, ready to be saved again.
    sessionStorage.setItem(`problem:${code}`, error.message);
    sessionStorage.setItem(`code:${code}`, JSON.stringify(Object.entries(files)));
  }
  location.assign(`${code}#build`);
}

// The example's name in its files becomes the new one, as `sless init` does.
function filesFor(name) {
  const { name: example, files } = chosen();
  return Object.fromEntries(Object.entries(files).map(([path, text]) => [path, text.replaceAll(example, name)]));
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const button = document.getElementById('make');
  button.disabled = true;
  showProblem(null);
  try {
    await create();
  } catch (error) {
    state.textContent = '';
    showProblem(error);
  } finally {
    button.disabled = false;
  }
});
form.addEventListener('change', (event) => (event.target.name === 'runtime' ? showStarters() : showAbout()));
showStarters();
document.getElementById('name').focus();

// Forms that send JSON: errors of the API next to their fields, and a guard for unsaved changes.
import { el } from './dom.js';
import { t } from './page.js';

// Shows an ApiError: details next to the fields with these names (`env_vars.PATH` at `env_vars`), the rest in `.form-error`.
export function showErrors(form, error) {
  clearErrors(form);
  const general = [];
  for (const { field, message } of error.details ?? []) {
    const control = controlOf(form, field);
    if (control) mark(control, field.includes('.') ? `${field}: ${message}` : message);
    else general.push(field ? `${field}: ${message}` : message);
  }
  if (!error.details?.length || general.length) {
    const note = form.querySelector('.form-error');
    note.textContent = general.join('\n') || error.message;
    note.hidden = false;
  }
  (form.querySelector('[aria-invalid="true"]') ?? form.querySelector('.form-error')).focus();
}

export function clearErrors(form) {
  for (const note of form.querySelectorAll('.field-error')) note.remove();
  for (const control of form.querySelectorAll('[aria-invalid]')) {
    control.removeAttribute('aria-invalid');
    control.removeAttribute('aria-errormessage');
  }
  const note = form.querySelector('.form-error');
  if (note) note.hidden = true;
}

function controlOf(form, field) {
  const parts = field.split(/[.[]/);
  return form.querySelector(`[name="${CSS.escape(field)}"], [data-field="${CSS.escape(field)}"]`)
    ?? form.querySelector(`[name="${CSS.escape(parts[0])}"], [data-field="${CSS.escape(parts[0])}"]`);
}

function mark(control, message) {
  const id = `error-${(control.id || control.name || control.dataset.field).replace(/\W/g, '-')}`;
  control.setAttribute('aria-invalid', 'true');
  control.setAttribute('aria-errormessage', id);
  const known = document.getElementById(id);
  if (known) known.textContent += `; ${message}`;
  else (control.closest('.field') ?? control.parentElement).append(el('p', { class: 'field-error', id }, message));
}

// Warns before the page is left while `changed()` is true.
export function guard(changed) {
  window.addEventListener('beforeunload', (event) => {
    if (changed()) event.preventDefault();
  });
}

// Disables the form's buttons while `action` runs and shows its error in the form. Returns whether it succeeded.
export async function submitting(form, action) {
  const buttons = [...form.querySelectorAll('button')].filter((button) => !button.disabled);
  for (const button of buttons) button.disabled = true;
  try {
    clearErrors(form);
    await action();
    return true;
  } catch (error) {
    if (error.details === undefined) throw error;
    showErrors(form, error.status ? error : { message: error.message ?? t('ui.failed') });
    return false;
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

// The list of calls, with filters that apply at once.
import '../core/frame.js';

const filters = document.getElementById('filters');
filters.querySelector('button').hidden = true;
filters.addEventListener('change', () => filters.requestSubmit());

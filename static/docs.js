// The API's documentation, drawn from /openapi.json. The token lives in this page's memory only.

const root = document.getElementById('docs');

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'class') made.className = value;
    else if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function resolved(api, schema) {
  if (!schema?.$ref) return schema ?? {};
  return schema.$ref.slice(2).split('/').reduce((at, part) => at[part], api);
}

function nameOf(schema) {
  return schema?.$ref ? schema.$ref.split('/').pop() : '';
}

function itemOf(items) {
  return items.properties ? `{${Object.keys(items.properties).join(', ')}}` : typeOf(items);
}

function typeOf(schema) {
  if (schema.$ref) return nameOf(schema);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const type = [schema.type ?? 'any'].flat().map((one) => (one === 'array' && schema.items ? `array of ${itemOf(schema.items)}` : one)).join(' | ');
  const range = schema.minimum !== undefined ? ` ${schema.minimum}–${schema.maximum ?? '…'}` : '';
  return type + range;
}

function notesOf(schema) {
  const notes = [schema.description, schema['x-expected']];
  if (schema.default !== undefined) notes.push(`default ${JSON.stringify(schema.default)}`);
  if (schema.writeOnly) notes.push('write-only');
  return notes.filter(Boolean).join('; ');
}

function fieldTable(schema) {
  const rows = Object.entries(schema.properties ?? {}).filter(([, field]) => !field.readOnly || field.type);
  if (!rows.length) return null;
  const required = new Set(schema.required ?? []);
  return element('table', {}, element('tbody', {}, ...rows.map(([name, field]) => element('tr', {},
    element('td', {}, element('code', {}, name), required.has(name) ? ' *' : ''),
    element('td', {}, typeOf(field)),
    element('td', {}, notesOf(field))))));
}

function schemaBlock(api, title, schema) {
  const parts = schema.anyOf ?? [schema];
  const blocks = parts.map((part) => {
    const full = resolved(api, part);
    const inner = full.type === 'array' ? resolved(api, full.items) : full;
    return element('div', {}, element('p', {}, `${title} `, element('code', {}, nameOf(part) || typeOf(full))), fieldTable(inner));
  });
  return element('div', {}, ...blocks);
}

function exampleOf(api, schema) {
  const full = resolved(api, schema.anyOf ? schema.anyOf[0] : schema);
  const example = {};
  for (const name of full.required ?? []) {
    const field = full.properties[name];
    example[name] = field.const ?? field.enum?.[0] ?? (field.type === 'object' ? {} : name === 'name' ? 'hello' : '');
  }
  return JSON.stringify(example, null, 2);
}

function inputFor(parameter, known) {
  const { name, schema = {} } = parameter;
  const attributes = { name, placeholder: parameter.description ?? '', required: parameter.required };
  const input = schema.enum
    ? element('select', { name }, element('option', { value: '' }, ''), ...schema.enum.map((value) => element('option', { value }, String(value))))
    : element('input', attributes);
  if (parameter.in === 'path' && name === 'ns') input.value = known.namespace;
  return element('label', {}, element('code', {}, name), ' ', input);
}

function requestOf(path, operation, form) {
  const query = new URLSearchParams();
  const headers = {};
  let url = path;
  for (const parameter of operation.parameters ?? []) {
    const value = form.elements[parameter.name].value;
    if (parameter.in === 'path') url = url.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (value && parameter.in === 'query') query.set(parameter.name, value);
    else if (value) headers[parameter.name] = value;
  }
  return { url: query.size ? `${url}?${query}` : url, headers };
}

async function answerText(response) {
  const text = await response.text();
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function tryForm(api, path, method, operation, known) {
  const json = operation.requestBody?.content?.['application/json'];
  const output = element('pre', { hidden: true });
  const send = async (event) => {
    event.preventDefault();
    const form = event.target;
    const { url, headers } = requestOf(path, operation, form);
    if (known.token) headers.Authorization = `Bearer ${known.token}`;
    const body = json && form.elements.body.value ? form.elements.body.value : undefined;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    output.hidden = false;
    output.textContent = '…';
    try {
      const response = await fetch(url, { method: method.toUpperCase(), headers, body });
      output.textContent = `${response.status} ${response.statusText}\n\n${await answerText(response)}`;
    } catch (error) {
      output.textContent = String(error);
    }
  };
  return element('div', {}, element('form', { onsubmit: send },
    ...(operation.parameters ?? []).map((parameter) => inputFor(parameter, known)),
    json ? element('label', {}, 'Body ', element('textarea', { name: 'body' }, exampleOf(api, json.schema ?? {}))) : null,
    element('button', {}, 'Send')), output);
}

function details(api, path, method, operation, known) {
  const body = operation.requestBody?.content ?? {};
  const answers = Object.entries(operation.responses).map(([status, response]) => {
    const full = resolved(api, response);
    const schema = full.content?.['application/json']?.schema;
    return schema ? schemaBlock(api, `${status}: ${full.description}`, schema) : element('p', {}, `${status}: ${full.description ?? ''}`);
  });
  return [
    ...Object.entries(body).map(([media, item]) => schemaBlock(api, media, item.schema ?? {})),
    ...answers,
    tryForm(api, path, method, operation, known),
  ];
}

function operationBlock(api, path, method, operation, known) {
  const block = element('details', { id: operation.operationId }, element('summary', {},
    element('span', { class: 'method' }, method.toUpperCase()),
    element('span', { class: 'path' }, path),
    element('span', { class: 'what' }, operation.summary ?? '')));
  block.addEventListener('toggle', () => {
    if (block.open && block.children.length === 1) block.append(...details(api, path, method, operation, known));
  });
  return block;
}

async function learnNamespace(known) {
  const response = await fetch('/v1/whoami', { headers: { Authorization: `Bearer ${known.token}` } });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  known.namespace = answer.namespace;
  for (const input of document.querySelectorAll('input[name="ns"]')) input.value = known.namespace;
}

function tokenForm(known) {
  const note = element('span', {});
  const take = async (event) => {
    event.preventDefault();
    known.token = event.target.elements.token.value.trim();
    try {
      await learnNamespace(known);
      note.textContent = ` ${known.namespace}`;
    } catch (error) {
      note.textContent = ` ${error.message}`;
    }
  };
  return element('form', { onsubmit: take }, element('label', {}, 'Token ',
    element('input', { type: 'password', name: 'token', autocomplete: 'off' }), ' ', element('button', {}, 'Use'), note));
}

function draw(api) {
  const known = { token: '', namespace: '' };
  root.replaceChildren(element('p', {}, api.info.description), tokenForm(known));
  for (const tag of api.tags) {
    root.append(element('h2', {}, tag.name), element('p', {}, tag.description));
    for (const [path, methods] of Object.entries(api.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        if (operation.tags?.includes(tag.name)) root.append(operationBlock(api, path, method, operation, known));
      }
    }
  }
}

try {
  const response = await fetch('/openapi.json');
  draw(await response.json());
} catch (error) {
  root.replaceChildren(element('p', { class: 'bad' }, `The document cannot be read: ${error.message}`));
}

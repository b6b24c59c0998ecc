// The page at /: a chat that streams, and what the engine does meanwhile. Talks to this server's own API and to nothing else; text from
// models and errors reaches the document as text alone, never as markup.
const $ = (id) => document.getElementById(id);
const kept = ['system', 'temperature', 'max-tokens', 'seed', 'key'];

const chat = { messages: load('messages', []), running: null };
let serving = null;

function load(name, otherwise) {
  try { return JSON.parse(sessionStorage.getItem('quire.' + name)) ?? otherwise; } catch { return otherwise; }
}
function save(name, value) {
  try { sessionStorage.setItem('quire.' + name, JSON.stringify(value)); } catch { /* a full or forbidden store only costs the memory of a reload */ }
}

function headers(more = {}) {
  const key = $('key').value.trim();
  return key === '' ? more : { ...more, Authorization: 'Bearer ' + key };
}

// The server's own words about a failed answer.
async function failure(response) {
  let text = '';
  try { text = (await response.json()).error?.message ?? ''; } catch { /* not JSON: the status has to do */ }
  if (response.status === 401) text = 'This server asks for an API key: enter it under Settings. ' + text;
  return new Error(text === '' ? 'The server answered ' + response.status : text);
}

async function get(path) {
  const response = await fetch(path, { headers: headers(), signal: AbortSignal.timeout(5000) });
  if (!response.ok) throw await failure(response);
  return response;
}

// ---- chat ----

function element(name, className, text) {
  const out = document.createElement(name);
  if (className) out.className = className;
  if (text !== undefined) out.textContent = text;
  return out;
}

// Fenced code gets a block of its own; everything else stays as it is written.
function fill(target, text) {
  target.replaceChildren();
  text.split('```').forEach((part, i) => {
    if (i % 2 === 0) { if (part !== '') target.append(part); return; }
    const end = part.indexOf('\n');
    target.append(element('pre', '', end < 0 ? part : part.slice(end + 1)));
  });
}

function bubble(message) {
  const item = element('li', 'message ' + message.role);
  const body = element('div', 'body');
  fill(body, message.content);
  item.append(body);
  if (message.note) item.append(element('span', 'note', message.note));
  $('messages').append(item);
  $('empty').hidden = true;
  return { item, body };
}

function at_end() {
  const list = $('messages');
  return list.scrollHeight - list.scrollTop - list.clientHeight < 40;
}
function to_end() { $('messages').scrollTop = $('messages').scrollHeight; }

function show_problem(text) {
  $('problem').textContent = text;
  $('problem').hidden = text === '';
}

function set_running(controller) {
  chat.running = controller;
  $('stop').hidden = controller === null;
  $('send').hidden = controller !== null;
}

function request_body() {
  const number = (id) => ($(id).value === '' ? undefined : Number($(id).value));
  const body = { model: serving.model, stream: true, stream_options: { include_usage: true }, temperature: number('temperature'), max_tokens: number('max-tokens'), seed: number('seed') };
  const said = chat.messages.filter((m) => m.content !== '').map(({ role, content }) => ({ role, content }));
  if (!serving.chat) return ['v1/completions', { ...body, prompt: said.at(-1).content }];
  const system = $('system').value.trim();
  return ['v1/chat/completions', { ...body, messages: system === '' ? said : [{ role: 'system', content: system }, ...said] }];
}

// Calls `on_event` with each JSON event of an event stream, until [DONE]. An error inside the stream is thrown.
async function read_events(response, on_event) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error('The answer broke off: the connection was closed');
    rest += value;
    const lines = rest.split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data:')) continue;
      const text = line.slice(5).trim();
      if (text === '[DONE]') return;
      const event = JSON.parse(text);
      if (event.error) throw new Error(event.error.message);
      on_event(event);
    }
  }
}

async function answer() {
  const controller = new AbortController();
  set_running(controller);
  show_problem('');
  const message = { role: 'assistant', content: '', note: '' };
  const { item, body } = bubble(message);
  item.classList.add('running');
  const conversation = chat.messages;  // another one may have begun before this answer ends
  const start = performance.now();
  let first = null, usage = null, reason = '', drawing = false;
  // Once a frame, however many tokens came: drawing at every token would keep a slow machine busy with nothing else.
  const draw = () => {
    drawing = false;
    const follow = at_end();
    fill(body, message.content);
    if (follow) to_end();
  };
  try {
    const [path, content] = request_body();
    const response = await fetch(path, { method: 'POST', headers: headers({ 'Content-Type': 'application/json' }), body: JSON.stringify(content), signal: controller.signal });
    if (!response.ok) throw await failure(response);
    await read_events(response, (event) => {
      if (event.usage) usage = event.usage;
      const choice = event.choices?.[0];
      if (!choice) return;
      const text = choice.delta?.content ?? choice.text ?? '';
      if (choice.finish_reason) reason = choice.finish_reason;
      if (text === '') return;
      first ??= performance.now();
      message.content += text;
      if (!drawing) requestAnimationFrame(draw);
      drawing = true;
    });
    const seconds = (performance.now() - (first ?? start)) / 1000;  // tokens that came together give no rate: below a tenth of a second none is shown
    const tokens = usage?.completion_tokens ?? 0;
    message.note = tokens + ' tokens, first after ' + (((first ?? performance.now()) - start) / 1000).toFixed(2) + ' s'
      + (tokens > 1 && seconds >= 0.1 ? ', then ' + ((tokens - 1) / seconds).toFixed(1) + ' per second' : '') + (reason === 'length' ? '; cut at its longest length' : '');
  } catch (error) {
    if (controller.signal.aborted) message.note = 'stopped';
    else { message.note = 'failed'; show_problem(error.message); }
  }
  draw();
  item.classList.remove('running');
  if (message.content === '' && ['failed', 'stopped'].includes(message.note)) {
    item.remove();
    take_back(conversation);
  } else {
    conversation.push(message);
    item.append(element('span', 'note', message.note));
  }
  save('messages', chat.messages);
  set_running(null);
  $('input').focus();
}

// A question without any answer goes back to where it was typed: two questions in a row are refused by the templates of many models.
function take_back(conversation) {
  const asked = conversation.pop();
  if (conversation !== chat.messages) return;
  $('messages').lastElementChild?.remove();
  if ($('input').value !== '') return;
  $('input').value = asked.content;
  grow();
}

function send() {
  const text = $('input').value;
  if (text.trim() === '' || chat.running !== null) return;
  if (serving === null) { show_problem('The server is not ready yet: ' + $('state').textContent); return; }
  $('input').value = '';
  grow();
  const message = { role: 'user', content: text };
  chat.messages.push(message);
  save('messages', chat.messages);
  bubble(message);
  to_end();
  answer();
}

function grow() {
  const input = $('input');
  input.style.height = 'auto';
  input.style.height = Math.min(input.scrollHeight + 2, 192) + 'px';
}

// ---- engine ----

const plots = { rate: [], blocks: [] };
let last = null;

// {name: [{labels, value}]} of the Prometheus text.
function parse_metrics(text) {
  const out = new Map();
  for (const line of text.split('\n')) {
    const match = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match === null) continue;
    const labels = Object.fromEntries([...(match[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((m) => [m[1], m[2]]));
    if (!out.has(match[1])) out.set(match[1], []);
    out.get(match[1]).push({ labels, value: Number(match[3]) });
  }
  return out;
}
const sum = (metrics, name) => (metrics.get(name) ?? []).reduce((total, one) => total + one.value, 0);

function plot(id, values, top) {
  const svg = $(id);
  svg.setAttribute('viewBox', '0 0 119 20');
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'polyline');
  line.setAttribute('points', values.map((v, i) => (120 - values.length + i) + ',' + (19 - 18 * v / top).toFixed(2)).join(' '));
  svg.replaceChildren(line);
}

function rows(id, pairs) {
  $(id).replaceChildren(...pairs.map(([name, value]) => {
    const row = element('tr');
    const head = element('th', '', name);
    head.scope = 'row';
    row.append(head, element('td', '', String(value)));
    return row;
  }));
}

function remember(name, value) {
  plots[name].push(value);
  if (plots[name].length > 120) plots[name].shift();
}

function show_metrics(metrics) {
  const now = performance.now();
  const current = {
    now,
    tokens: sum(metrics, 'vllm:generation_tokens_total') + sum(metrics, 'vllm:prompt_tokens_total'),
    steps: sum(metrics, 'vllm:iteration_tokens_total_count'), step_tokens: sum(metrics, 'vllm:iteration_tokens_total_sum'),
    step_seconds: sum(metrics, 'quire:step_duration_seconds_sum'), step_count: sum(metrics, 'quire:step_duration_seconds_count'),
  };
  const usage = sum(metrics, 'vllm:kv_cache_usage_perc');
  const total = Number(metrics.get('vllm:cache_config_info')?.[0]?.labels.num_gpu_blocks ?? 0);
  $('running').value = sum(metrics, 'vllm:num_requests_running');
  $('waiting').value = sum(metrics, 'vllm:num_requests_waiting');
  $('blocks').value = total === 0 ? '–' : Math.round(usage * total) + ' of ' + total;
  if (last !== null) {
    const rate = Math.max(0, (current.tokens - last.tokens) / ((now - last.now) / 1000));  // counters of a server that began again are smaller
    remember('rate', rate);
    $('rate').value = rate < 10 ? rate.toFixed(1) : Math.round(rate);
    const steps = current.steps - last.steps, timed = current.step_count - last.step_count;
    $('batch').value = steps > 0 ? ((current.step_tokens - last.step_tokens) / steps).toFixed(1) : '–';
    $('step').value = timed > 0 ? (1000 * (current.step_seconds - last.step_seconds) / timed).toFixed(2) + ' ms' : '–';
  }
  remember('blocks', usage);
  plot('rate-plot', plots.rate, Math.max(1, ...plots.rate));
  plot('blocks-plot', plots.blocks, 1);
  rows('modes', (metrics.get('quire:graph_steps_total') ?? []).map((one) => [one.labels.mode === 'NONE' ? 'eager' : one.labels.mode, one.value]));
  rows('requests', [
    ...(metrics.get('vllm:request_success_total') ?? []).map((one) => ['ended: ' + one.labels.finished_reason, one.value]),
    ['preemptions', sum(metrics, 'vllm:num_preemptions_total')],
    ['prefix tokens reused', sum(metrics, 'vllm:prefix_cache_hits_total') + ' of ' + sum(metrics, 'vllm:prefix_cache_queries_total')],
  ]);
  last = current;
}

function show_serving(facts) {
  serving = facts;
  $('model').textContent = facts.model;
  document.title = facts.model + ' – Quire';
  rows('facts', facts.facts);
  $('rejected-list').replaceChildren(...facts.rejected.map((text) => element('li', '', text)));
  $('warnings').hidden = facts.notes.length === 0;
  $('warning-list').replaceChildren(...facts.notes.map((text) => element('li', '', text)));
}

function show_scales(ledger) {
  const number = (x) => +Number(x).toPrecision(5);
  const text = (value) => (value === null || value === undefined ? '–' : Array.isArray(value) ? value.map(number).join(' ') : typeof value === 'number' ? number(value) : String(value));
  const table = $('scale-table');
  const line = (name, cells) => {
    const row = element('tr');
    row.append(...cells.map((cell) => element(name, '', text(cell))));
    return row;
  };
  table.replaceChildren(element('caption', '', ledger.summary ?? 'This server has no scale ledger.'));
  const scales = (ledger.scales ?? []).filter((one) => one.status !== 'none');
  if (scales.length === 0) return;
  table.append(line('th', ['layer', 'of', 'status', 'in use', 'tensor']));
  table.append(...scales.map((one) => line('td', [one.layer, one.kind, one.status, one.in_use, one.tensor ?? one.reason])));
}

function set_state(kind, text) {
  $('state').dataset.state = kind;
  $('state').textContent = text;
}

async function readiness() {
  const response = await fetch('ready', { signal: AbortSignal.timeout(5000) });
  const verdict = await response.json().catch(() => ({}));
  set_state(response.ok ? 'good' : 'wait', response.ok ? 'ready' : verdict.text ?? 'not ready');
  return response.ok;
}

async function look() {
  try {
    if (await readiness()) {
      if (serving === null) {
        show_serving(await (await get('quire/serving')).json());
        show_scales(await (await get('quire/scales')).json());
      }
      show_metrics(parse_metrics(await (await get('metrics')).text()));
    } else {
      serving = null;  // a server that starts anew may serve another model
    }
    $('offline').hidden = true;
  } catch (error) {
    if (error instanceof TypeError || error.name === 'TimeoutError') {
      serving = null;
      set_state('bad', 'no answer');
      $('offline').textContent = 'The server does not answer; trying again every second.';
    } else {
      $('offline').textContent = error.message;
    }
    $('offline').hidden = false;
  }
  setTimeout(look, document.hidden ? 5000 : 1000);
}

// ---- wiring ----

function view(name) {
  document.querySelector('main').dataset.view = name;
  $('show-chat').setAttribute('aria-pressed', String(name === 'chat'));
  $('show-live').setAttribute('aria-pressed', String(name === 'live'));
}

for (const id of kept) {
  $(id).value = load(id, '');
  $(id).addEventListener('input', () => save(id, $(id).value));
}
$('form').addEventListener('submit', (event) => { event.preventDefault(); send(); });
$('input').addEventListener('input', grow);
$('input').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
});
document.addEventListener('keydown', (event) => { if (event.key === 'Escape') chat.running?.abort(); });
$('stop').addEventListener('click', () => chat.running?.abort());
$('clear').addEventListener('click', () => {
  chat.running?.abort();
  chat.messages = [];
  save('messages', chat.messages);
  $('messages').replaceChildren();
  $('empty').hidden = false;
  show_problem('');
  $('input').focus();
});
$('show-chat').addEventListener('click', () => view('chat'));
$('show-live').addEventListener('click', () => view('live'));
chat.messages.forEach(bubble);
to_end();
$('input').focus();
look();

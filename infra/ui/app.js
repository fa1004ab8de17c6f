/** @import { PagePatch } from '../../shared/domain/page-patch.ts' */
import { ConnectionCard } from './connection-card.js';
import { byId, setText } from './dom.js';
import { Lab } from './lab.js';
import { Model } from './model.js';
import { Past } from './past.js';
import { Side } from './side.js';
import { listen } from './stream.js';
import { initTheme } from './theme.js';
import { summaryWords } from './words.js';

const model = new Model();
const side = new Side(model);
/** @type {Map<string, ConnectionCard>} */
const cards = new Map();
/** @type {Lab | undefined} */
let lab;
/** @type {Past | undefined} */
let past;
/** @type {number | undefined} */
let silentMs;

/** @type {Set<string>} */
const dirtyCards = new Set();
/** @type {Map<string, Set<string>>} */
const dirtySeries = new Map();
let isDrawing = false;

/** @param {PagePatch} patch */
function take(patch) {
  announce(patch);
  const changes = model.apply(patch);
  for (const key of changes.connections) dirtyCards.add(key);
  for (const [key, interfaces] of changes.series) {
    const known = dirtySeries.get(key) ?? new Set();
    dirtySeries.set(key, known);
    for (const interfaceId of interfaces) known.add(interfaceId);
  }
  if (changes.reset) side.drawFeed();
  else if (changes.decisions.length > 0) side.addDecisions(changes.decisions);
  if (patch.functions || patch.deadLetters !== undefined) side.drawFunctions();
  if (changes.reset && !past?.isOn) void meet().catch(() => {});
  showState();
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(draw);
}

/** Only what has changed, and of that only what is on the screen. */
function draw() {
  isDrawing = false;
  for (const key of dirtyCards) drawCard(key);
  if (dirtyCards.size > 0) {
    setText(byId('summary'), summaryWords([...model.connections.values()].map(({ head }) => head)));
    byId('empty').hidden = cards.size > 0;
  }
  dirtyCards.clear();
  for (const [key, interfaces] of dirtySeries) cards.get(key)?.draw(interfaces);
  dirtySeries.clear();
  lab?.draw();
}

/** @param {string} key */
function drawCard(key) {
  const card = cards.get(key);
  if (!model.connections.has(key)) {
    card?.remove();
    cards.delete(key);
    return;
  }
  if (card !== undefined) return card.show();
  const made = new ConnectionCard(key, model, (row) => lab?.addTools(row));
  cards.set(key, made);
  const next = [...cards.keys()].filter((other) => other > key).sort()[0];
  byId('cards').insertBefore(made.root, next === undefined ? null : (cards.get(next)?.root ?? null));
  made.show();
}

/** For who listens instead of looking: changes of value, a few at a time. @param {PagePatch} patch */
function announce({ reset, connections = [] }) {
  if (reset) return;
  const said = connections.flatMap(({ key, value }) => {
    const before = model.connections.get(key)?.head.value;
    return value === undefined || value === before ? [] : [`${key} is ${value}`];
  });
  if (said.length > 0) setText(byId('said'), said.slice(0, 3).join('. '));
}

/** Whether what is shown can be believed, in words. */
function showState() {
  const away = model.health.filter(({ ok }) => !ok);
  const isStale = silentMs !== undefined;
  const isPast = past?.isOn === true;
  const state = isPast
    ? 'past'
    : isStale
      ? 'stale'
      : away.length > 0
        ? 'partial'
        : model.health.length === 0
          ? 'waiting'
          : 'live';
  const words = {
    stale: `stale, ${Math.round((silentMs ?? 0) / 1000)} s`,
    partial: 'partly stale',
    waiting: 'connecting',
    live: 'live',
    past: 'the past',
  };
  byId('pulse').dataset.state = state;
  setText(byId('pulse-text'), words[state]);
  document.body.dataset.state = state;
  const banner = byId('banner');
  const reasons = away.map(({ name, reason }) => `${name} is away (${reason ?? 'no reason given'})`);
  const text = isPast
    ? ''
    : isStale
      ? 'No word from the server of this page: what is shown may be old. It comes back by itself.'
      : reasons.length > 0
        ? `${reasons.join('; ')}: what is shown may be old.`
        : '';
  setText(banner, text);
  banner.hidden = text === '';
}

/** The past takes the place of the present, which goes on unseen and comes back whole. @param {boolean} isPast */
function setMode(isPast) {
  document.body.dataset.mode = isPast ? 'past' : 'live';
  if (!isPast) stream.restart();
  showState();
}

/** What this server lets the page do: another one may have taken the place of the last. */
async function meet() {
  const response = await fetch('session');
  if (!response.ok) return;
  const { version, controlToken, hasPast } = await response.json();
  setText(byId('version'), `wg-keepalive ${version}.`);
  if (hasPast && past === undefined) past = new Past({ show: take, onMode: setMode });
  if (controlToken === undefined) return;
  if (lab !== undefined) {
    lab.controlToken = controlToken;
    return;
  }
  lab = new Lab(model, controlToken);
  for (const card of cards.values()) for (const row of card.rows.values()) lab.addTools(row);
  lab.draw();
}

initTheme(byId('theme'), () => {
  for (const card of cards.values()) card.drawAll();
});
for (const [id, isOpen] of /** @type {const} */ ([
  ['open-all', true],
  ['close-all', false],
])) {
  byId(id).addEventListener('click', () => {
    for (const card of cards.values()) card.toggleCharts(isOpen);
  });
}
const stream = listen({
  onPatch(patch) {
    if (!past?.isOn) take(patch);
  },
  onSilence(ms) {
    if (ms === undefined && silentMs === undefined) return;
    silentMs = ms;
    showState();
  },
});

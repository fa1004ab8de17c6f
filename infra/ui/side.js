/** @import { PageDecision, PageFunction } from '../../shared/domain/page-patch.ts' */
/** @import { Model } from './model.js' */
import { byId, element, setText } from './dom.js';
import { timeWords } from './words.js';

const MAX_SHOWN = 100;

/** Functions, dead letters, and what the functions decided. */
export class Side {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.functions = byId('functions');
    this.feed = byId('feed');
    this.filter = /** @type {HTMLSelectElement} */ (byId('feed-filter'));
    this.pause = byId('feed-pause');
    this.isPaused = false;
    this.filter.addEventListener('change', () => this.drawFeed());
    this.pause.addEventListener('click', () => {
      this.isPaused = !this.isPaused;
      this.pause.setAttribute('aria-pressed', String(this.isPaused));
      setText(this.pause, this.isPaused ? 'Go on' : 'Pause');
      if (!this.isPaused) this.drawFeed();
    });
  }

  drawFunctions() {
    const { functions, deadLetters } = this.model;
    const rows = functions.flatMap(rowsOf);
    while (this.functions.children.length > rows.length) this.functions.lastElementChild?.remove();
    rows.forEach(({ isReplica, cells }, index) => {
      const row = this.functions.children[index] ?? this.functions.appendChild(functionRow());
      row.classList.toggle('replica', isReplica);
      cells.forEach((text, column) => {
        setText(/** @type {HTMLElement} */ (row.children[column]), text);
      });
    });
    const dead = byId('dead-letters');
    setText(dead, deadLetters === undefined ? '–' : String(deadLetters));
    dead.classList.toggle('bad', (deadLetters ?? 0) > 0);
  }

  /** @param {readonly PageDecision[]} decisions */
  addDecisions(decisions) {
    if (this.isPaused) return;
    this.feed.prepend(
      ...decisions
        .filter((one) => this.#isWanted(one))
        .map(feedItem)
        .reverse(),
    );
    while (this.feed.children.length > MAX_SHOWN) this.feed.lastElementChild?.remove();
  }

  drawFeed() {
    const wanted = this.model.decisions.filter((one) => this.#isWanted(one)).slice(-MAX_SHOWN);
    this.feed.replaceChildren(...wanted.map(feedItem).reverse());
  }

  /** @param {PageDecision} decision */
  #isWanted({ outcome, change = '' }) {
    const isProblem = outcome === 'failed' || outcome === 'invalid' || outcome === 'orphan';
    if (this.filter.value === 'problems') return isProblem;
    return this.filter.value === 'all' || isProblem || change.includes('→');
  }
}

/**
 * A function, and each of its replicas: what waits and what is in work is the function's, who is late is a replica.
 * @param {PageFunction} one
 */
function rowsOf({ name, perSecond, waiting, inWork, replicas }) {
  const lags = replicas.flatMap(({ lagMs }) => lagMs ?? []);
  const lag = lags.length > 0 ? Math.max(...lags) : undefined;
  return [
    { isReplica: false, cells: [name, perSecond.toFixed(1), lagWords(lag), String(waiting), String(inWork)] },
    ...replicas.map((replica) => {
      return { isReplica: true, cells: [replica.name, replica.perSecond.toFixed(1), lagWords(replica.lagMs), '', ''] };
    }),
  ];
}

/** @param {number | undefined} ms */
function lagWords(ms) {
  if (ms === undefined) return '–';
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function functionRow() {
  const cells = [1, 2, 3, 4].map(() => element('td', { class: 'number' }));
  return element('tr', {}, element('th', { scope: 'row' }), ...cells);
}

/** @param {PageDecision} decision */
function feedItem({ atUnixMs, function: name, connection, interfaceId, outcome, reason, change, latency, throttled }) {
  const what = [connection, interfaceId].filter(Boolean).join(' ');
  return element(
    'li',
    {
      'data-outcome': outcome,
      'data-change': change?.includes('→') ? change.slice(change.lastIndexOf(' ') + 1) : undefined,
    },
    element('span', { class: 'when' }, timeWords(atUnixMs)),
    element('span', { class: 'who' }, name),
    element('span', { class: 'what' }, what),
    element(
      'span',
      { class: 'why' },
      [outcome === 'written' ? undefined : outcome, change, latency, `(${reason})`].filter(Boolean).join(' '),
    ),
    ...(throttled > 0
      ? [element('span', { class: 'count', title: 'events before it that needed no write' }, `+${throttled} throttled`)]
      : []),
  );
}

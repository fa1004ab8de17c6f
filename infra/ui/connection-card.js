/** @import { KnownConnection, Model } from './model.js' */
import { element, setAttribute, setText } from './dom.js';
import { TunnelRow } from './tunnel-row.js';
import { localTimes, MARKS } from './words.js';

/** A Connection with no more tunnels than this opens their charts by itself. */
const OPEN_UP_TO = 4;
/** One with more than this shows only those that are not well, until it is opened. */
const FOLD_ABOVE = 16;

/** One Connection: its aggregate in words, its tunnels. */
export class ConnectionCard {
  /**
   * @param {string} key
   * @param {Model} model
   * @param {(row: TunnelRow) => void} onRow told of each new row, before it is shown
   */
  constructor(key, model, onRow) {
    this.key = key;
    this.model = model;
    this.onRow = onRow;
    /** @type {Map<string, TunnelRow>} */
    this.rows = new Map();
    this.isFolded = true;
    this.title = element('h3', {}, key);
    this.badge = element('span', { class: 'badge big' });
    this.latency = element('span', { class: 'number', title: 'Mean latency of its tunnels, as the status has it' });
    this.remote = element('span', { class: 'remote' });
    this.message = element('p', { class: 'message' });
    this.list = element('ul', { class: 'tunnels' });
    this.fold = element('button', { type: 'button', class: 'quiet', onclick: () => this.#toggleFold() });
    this.root = element(
      'article',
      { class: 'card', 'aria-label': `Connection ${key}` },
      element('header', {}, this.badge, this.title, this.latency, this.remote),
      this.message,
      this.list,
      this.fold,
    );
  }

  show() {
    const known = this.model.connections.get(this.key);
    if (known === undefined) return;
    const { head } = known;
    setAttribute(this.root, 'data-value', head.value ?? 'none');
    setAttribute(this.badge, 'data-value', head.value ?? 'none');
    setText(this.badge, head.value === undefined ? '? no value' : `${MARKS[head.value]} ${head.value}`);
    setText(this.latency, head.latency ?? '');
    setText(this.remote, [head.type, head.remoteClusterId && `to ${head.remoteClusterId}`].filter(Boolean).join(' '));
    setText(this.message, localTimes([head.reason, head.message].filter(Boolean).join(': ')));
    this.message.title = head.message ?? '';
    this.#showTunnels(known);
  }

  /** @param {Iterable<string>} interfaces */
  draw(interfaces) {
    for (const interfaceId of interfaces) this.rows.get(interfaceId)?.draw();
  }

  drawAll() {
    this.draw(this.rows.keys());
  }

  /** @param {boolean} isOpen */
  toggleCharts(isOpen) {
    for (const row of this.rows.values()) row.toggle(isOpen);
  }

  remove() {
    for (const row of this.rows.values()) row.remove();
    this.root.remove();
  }

  /** @param {KnownConnection} known */
  #showTunnels({ interfaces, tunnels }) {
    const canFold = interfaces.length > FOLD_ABOVE;
    const shown = interfaces.filter((id) => !canFold || !this.isFolded || tunnels.get(id)?.value !== 'Connected');
    const wanted = new Set(shown);
    for (const [interfaceId, row] of this.rows) {
      if (wanted.has(interfaceId)) continue;
      row.remove();
      this.rows.delete(interfaceId);
    }
    shown.forEach((interfaceId, index) => {
      const tunnel = tunnels.get(interfaceId);
      const row = this.rows.get(interfaceId) ?? this.#addRow(interfaceId, interfaces.length <= OPEN_UP_TO);
      if (this.list.children[index] !== row.root) this.list.insertBefore(row.root, this.list.children[index] ?? null);
      if (tunnel !== undefined) row.show(tunnel);
    });
    this.fold.hidden = !canFold;
    const well = interfaces.length - shown.length;
    setText(
      this.fold,
      this.isFolded
        ? `${well} of ${interfaces.length} tunnels are Connected: show them`
        : 'Show only tunnels that are not Connected',
    );
  }

  /** @param {string} interfaceId @param {boolean} isOpen */
  #addRow(interfaceId, isOpen) {
    const row = new TunnelRow(interfaceId, {
      series: () => this.model.connections.get(this.key)?.series.get(interfaceId),
      window: () => this.model.window(),
    });
    row.isOpenAtFirst = isOpen;
    this.rows.set(interfaceId, row);
    this.onRow(row);
    return row;
  }

  #toggleFold() {
    this.isFolded = !this.isFolded;
    this.show();
    this.drawAll();
  }
}

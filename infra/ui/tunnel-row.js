/** @import { PageTunnel } from '../../shared/domain/page-patch.ts' */
/** @import { Series } from './model.js' */
import { Chart } from './chart.js';
import { element, setAttribute, setText } from './dom.js';
import { drawSparkline, unwatchVisibility, watchVisibility } from './sparkline.js';
import { latencyWords, localTimes, lossPercent, lossWords, MARKS } from './words.js';

/** The last bins that "now" means. */
const NOW_BINS = 10;
let rows = 0;

/** One tunnel of a Connection: a line that opens to a chart. */
export class TunnelRow {
  /**
   * @param {string} interfaceId
   * @param {{ series: () => Series | undefined, window: () => { first: number, last: number } }} source
   */
  constructor(interfaceId, source) {
    this.interfaceId = interfaceId;
    this.source = source;
    this.isVisible = false;
    /** Its chart opens when the row comes on the screen for the first time. */
    this.isOpenAtFirst = false;
    /** @type {Chart | undefined} */
    this.chart = undefined;
    const id = `tunnel-${++rows}`;
    this.name = element('span', { class: 'name' }, interfaceId);
    this.badge = element('span', { class: 'badge' });
    this.latency = element('span', { class: 'number', title: 'Latency now' });
    this.loss = element('span', { class: 'number loss', title: 'Loss of the last PINGs' });
    this.canvas = element('canvas', { class: 'spark', 'aria-hidden': 'true' });
    this.reason = element('p', { class: 'reason' });
    this.figure = element('div', { class: 'figure', id, hidden: true });
    this.button = element(
      'button',
      {
        type: 'button',
        class: 'line',
        'aria-expanded': 'false',
        'aria-controls': id,
        onclick: () => this.toggle(!this.isOpen),
      },
      this.badge,
      this.name,
      this.latency,
      this.loss,
      this.canvas,
    );
    this.tools = element('div', { class: 'tools' });
    this.root = element(
      'li',
      { class: 'tunnel', 'data-interface': interfaceId },
      this.button,
      this.tools,
      this.reason,
      this.figure,
    );
    watchVisibility(this.root, (isVisible) => {
      this.isVisible = isVisible;
      if (!isVisible) return;
      if (this.isOpenAtFirst) this.toggle(true);
      this.isOpenAtFirst = false;
      this.draw();
    });
  }

  get isOpen() {
    return !this.figure.hidden;
  }

  /** @param {boolean} isOpen */
  toggle(isOpen) {
    if (isOpen === this.isOpen) return;
    this.figure.hidden = !isOpen;
    setAttribute(this.button, 'aria-expanded', String(isOpen));
    if (isOpen) this.chart = new Chart(this.figure);
    else this.#endChart();
    this.draw();
  }

  /** @param {PageTunnel} tunnel */
  show({ value, reason, message }) {
    setAttribute(this.root, 'data-value', value);
    setAttribute(this.badge, 'data-value', value);
    setText(this.badge, `${MARKS[value]} ${value}`);
    setText(this.reason, localTimes([reason, message].filter(Boolean).join(': ')));
    this.reason.title = message ?? '';
    this.reason.hidden = reason === undefined && message === undefined;
  }

  /** What its gateway saw of late; cheap where it is not on the screen. */
  draw() {
    const series = this.source.series();
    if (series === undefined) return;
    const recent = series.bins.slice(-NOW_BINS);
    const last = recent.at(-1);
    const isDown = this.root.dataset.value === 'Error';
    setText(
      this.latency,
      isDown ? '–' : latencyWords(last?.[3] ?? recent.findLast(([, , , rtt]) => rtt !== null)?.[3]),
    );
    const loss = lossPercent(recent);
    setText(this.loss, `${lossWords(loss)} lost`);
    this.loss.classList.toggle('bad', loss !== undefined && loss > 0);
    if (!this.isVisible) return;
    const window = this.source.window();
    drawSparkline(this.canvas, series, window);
    this.chart?.draw(series, window);
  }

  remove() {
    unwatchVisibility(this.root);
    this.#endChart();
    this.root.remove();
  }

  #endChart() {
    this.chart?.destroy();
    this.chart = undefined;
  }
}

/** @import { PageBin, PageSegment } from '../../shared/domain/page-patch.ts' */
import { element } from './dom.js';
import { colour } from './sparkline.js';
import uPlot from './vendor/uplot.js';
import { timeWords } from './words.js';

const HEIGHT = 120;
/** Losses are smoothed over so many bins: one lost PING in two seconds is not a loss of 100 %. */
const LOSS_BINS = 10;

/**
 * Latency and loss of one tunnel over time, with the status in a strip under it.
 */
export class Chart {
  /** @param {HTMLElement} parent */
  constructor(parent) {
    this.parent = parent;
    this.strip = element('div', { class: 'strip', role: 'img' });
    this.plot = new uPlot(this.#options(), [[], [], []], parent);
    parent.append(this.strip);
    this.resizing = new ResizeObserver(() => this.plot.setSize({ width: this.#width(), height: HEIGHT }));
    this.resizing.observe(parent);
  }

  /**
   * @param {{ bins: readonly PageBin[], segments: readonly PageSegment[] }} series
   * @param {{ first: number, last: number }} window in seconds
   */
  draw({ bins, segments }, { first, last }) {
    this.plot.setData(columns(bins), false);
    this.plot.setScale('x', { min: first, max: last });
    this.#drawStrip(segments, first, last);
  }

  /** @param {readonly PageSegment[]} segments @param {number} first @param {number} last */
  #drawStrip(segments, first, last) {
    const parts = segments.flatMap(([fromUnixMs, value], index) => {
      const from = Math.max(first, fromUnixMs / 1000);
      const to = Math.min(last, (segments[index + 1]?.[0] ?? last * 1000) / 1000);
      if (to <= first || to < from) return [];
      const part = element('span', {
        class: 'part',
        'data-value': value,
        title: `${value} since ${timeWords(fromUnixMs)}`,
      });
      part.style.left = `${(100 * (from - first)) / (last - first)}%`;
      part.style.width = `${(100 * (to - from)) / (last - first)}%`;
      return [part];
    });
    this.strip.replaceChildren(...parts);
    const words = segments.slice(-4).map(([fromUnixMs, value]) => `${value} since ${timeWords(fromUnixMs)}`);
    this.strip.setAttribute('aria-label', `Status: ${words.join(', then ') || 'unknown'}`);
  }

  destroy() {
    this.resizing.disconnect();
    this.plot.destroy();
    this.parent.replaceChildren();
  }

  #width() {
    return Math.max(160, this.parent.clientWidth);
  }

  /** @returns {import('uplot').Options} */
  #options() {
    const axis = {
      stroke: () => colour('--soft'),
      grid: { stroke: () => colour('--rule'), width: 1 },
      ticks: { show: false },
      font: '11px system-ui',
    };
    return {
      width: this.#width(),
      height: HEIGHT,
      padding: [8, 0, 0, 0],
      cursor: { y: false, drag: { x: false, y: false } },
      legend: { show: false },
      scales: {
        ms: { range: (_plot, _low, high) => [0, Math.max(0.1, (high ?? 0) * 1.15)] },
        loss: { range: [0, 100] },
      },
      axes: [
        { ...axis, size: 24, space: 70, values: (_plot, seconds) => seconds.map((second) => timeWords(second * 1000)) },
        {
          ...axis,
          scale: 'ms',
          size: 52,
          values: (_plot, values) => values.map((value) => `${+value.toPrecision(3)} ms`),
        },
        {
          ...axis,
          scale: 'loss',
          side: 1,
          size: 40,
          grid: { show: false },
          splits: () => [0, 50, 100],
          values: (_plot, values) => values.map((value) => `${value}%`),
        },
      ],
      series: [
        {},
        {
          label: 'Latency',
          scale: 'ms',
          stroke: () => colour('--line'),
          width: 1.5,
          spanGaps: false,
          points: { show: false },
        },
        {
          label: 'Loss',
          scale: 'loss',
          stroke: () => colour('--bad'),
          fill: () => colour('--bad-wash'),
          width: 1,
          points: { show: false },
          ...(uPlot.paths.stepped && { paths: uPlot.paths.stepped({ align: 1 }) }),
        },
      ],
    };
  }
}

/**
 * A bin without an answer is a gap in the line.
 * @param {readonly PageBin[]} bins
 * @returns {import('uplot').AlignedData}
 */
function columns(bins) {
  const seconds = bins.map(([second]) => second);
  const milliseconds = bins.map(([, , , rtt]) => (rtt === null ? null : rtt / 1000));
  let pings = 0;
  let lost = 0;
  const losses = bins.map(([, ended, without], index) => {
    pings += ended;
    lost += without;
    const past = bins[index - LOSS_BINS];
    if (past !== undefined) {
      pings -= past[1];
      lost -= past[2];
    }
    return pings === 0 ? null : (100 * lost) / pings;
  });
  return [seconds, milliseconds, losses];
}

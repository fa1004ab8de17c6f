/** @import { PageBin, PageSegment } from '../../shared/domain/page-patch.ts' */

/** @param {string} name of a custom property of the style sheet */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Only what is on the screen is drawn. @type {WeakMap<Element, (isVisible: boolean) => void>} */
const watched = new WeakMap();
const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) watched.get(target)?.(isIntersecting);
  },
  { rootMargin: '80px' },
);

/**
 * Tells whether an element is on the screen, or near it.
 * @param {Element} target
 * @param {(isVisible: boolean) => void} onChange
 */
export function watchVisibility(target, onChange) {
  watched.set(target, onChange);
  observer.observe(target);
}

/** @param {Element} target */
export function unwatchVisibility(target) {
  observer.unobserve(target);
  watched.delete(target);
}

const COLOURS = { Connected: '--good', Connecting: '--wait', Error: '--bad' };
const STRIP = 5;

/**
 * Round trips as a line, losses as marks under it, and the status below that, over the last minutes.
 * @param {HTMLCanvasElement} canvas
 * @param {{ bins: readonly PageBin[], segments: readonly PageSegment[] }} series
 * @param {{ first: number, last: number }} window in seconds
 */
export function drawSparkline(canvas, { bins, segments }, { first, last }) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d');
  if (context === null || width === 0) return;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  /** @param {number} second */
  const x = (second) => ((second - first) / (last - first)) * width;
  const floor = height - STRIP - 3;
  drawLine(context, bins, first, x, floor);
  context.fillStyle = colour('--bad');
  for (const [second, pings, lost] of bins) {
    if (lost > 0 && second >= first)
      context.fillRect(x(second) - 0.75, floor - (lost / pings) * floor * 0.5, 1.5, (lost / pings) * floor * 0.5 + 1);
  }
  segments.forEach(([fromUnixMs, value], index) => {
    const from = Math.max(0, x(fromUnixMs / 1000));
    const next = segments[index + 1];
    const to = next === undefined ? width : x(next[0] / 1000);
    if (to <= 0) return;
    context.fillStyle = colour(COLOURS[value]);
    context.fillRect(from, height - STRIP, Math.max(1, to - from), STRIP);
  });
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {readonly PageBin[]} bins
 * @param {number} first
 * @param {(second: number) => number} x
 * @param {number} floor
 */
function drawLine(context, bins, first, x, floor) {
  let highest = 0;
  for (const [second, , , rtt] of bins) if (second >= first && rtt !== null) highest = Math.max(highest, rtt);
  if (highest === 0) return;
  context.beginPath();
  let isDown = true;
  for (const [second, , , rtt] of bins) {
    if (second < first) continue;
    if (rtt === null) {
      isDown = true;
      continue;
    }
    const y = floor - (rtt / highest) * (floor - 2);
    if (isDown) context.moveTo(x(second), y);
    else context.lineTo(x(second), y);
    isDown = false;
  }
  context.strokeStyle = colour('--line');
  context.lineWidth = 1.25;
  context.stroke();
}

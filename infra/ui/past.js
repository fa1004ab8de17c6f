/** @import { PagePatch } from '../../shared/domain/page-patch.ts' */
/** @import { PastFilm, PastReport } from '../../shared/cli/page-past.ts' */
import { byId, element, setText } from './dom.js';
import { timeWords } from './words.js';

const WINDOWS = [1, 5, 15, 60];
const SPEEDS = [1, 5, 20, 60];
const STEP_MS = 250;

/** A window of the past: a film that one scrubs, plays and pauses, and what other settings would have made of it. */
export class Past {
  /** @param {{ show: (patch: PagePatch) => void, onMode: (isPast: boolean) => void }} page */
  constructor(page) {
    this.page = page;
    this.root = byId('past');
    this.opener = byId('open-past');
    /** @type {PastFilm | undefined} */
    this.film = undefined;
    /** Frames that are shown. */
    this.shown = 0;
    /** Minutes that the film tells of, whatever is chosen for the next one. */
    this.filmMinutes = 0;
    /** Which wish is the newest, to be shown a film or the present: the answer to an older one comes too late. */
    this.wish = 0;
    /** The same of what other settings would have made of the film. */
    this.question = 0;
    /** @type {ReturnType<typeof setInterval> | undefined} */
    this.playing = undefined;
    this.minutes = select('past-minutes', WINDOWS, (minutes) => `${minutes} min`, 5);
    this.speed = select('past-speed', SPEEDS, (speed) => `${speed} ×`, 5);
    this.time = element('input', { id: 'past-time', type: 'range', min: '0', value: '0', step: '1' });
    this.clock = element('output', { for: 'past-time' }, '–');
    this.play = element('button', { type: 'button', onclick: () => this.#play(this.playing === undefined) }, 'Play');
    this.said = element('p', { role: 'status', class: 'answer' });
    this.controls = element(
      'div',
      { class: 'row', hidden: true },
      this.play,
      element('label', { for: 'past-speed' }, 'Speed'),
      this.speed,
      element('label', { for: 'past-time', class: 'for-ears' }, 'Time'),
      this.time,
      this.clock,
    );
    this.time.addEventListener('input', () => this.#seek(Number(this.time.value)));
    this.threshold = slider('what-if-threshold', 1, 20, 5);
    this.update = slider('what-if-update', 0, 60, 10);
    this.report = element('div', {
      class: 'report',
      tabindex: '0',
      role: 'region',
      'aria-label': 'What if',
      hidden: true,
    });
    this.whatIf = this.#whatIf();
    this.#assemble();
    this.opener.hidden = false;
    this.opener.addEventListener('click', () => this.#toggle());
  }

  get isOn() {
    return this.film !== undefined;
  }

  #assemble() {
    this.root.append(
      element('h2', { id: 'past-title' }, 'Past'),
      element(
        'div',
        { class: 'row' },
        element('label', { for: 'past-minutes' }, 'The last'),
        this.minutes,
        element('button', { type: 'button', onclick: () => void this.#load() }, 'Show'),
        element('button', { type: 'button', onclick: () => this.#leave() }, 'Back to live'),
      ),
      this.controls,
      this.whatIf,
      this.said,
    );
  }

  #whatIf() {
    const judge = () => void this.#judge();
    for (const { input } of [this.threshold, this.update]) input.addEventListener('change', judge);
    return element(
      'fieldset',
      { hidden: true },
      element('legend', {}, 'What if'),
      element('label', { for: 'what-if-threshold' }, 'ping-loss-threshold'),
      this.threshold.input,
      this.threshold.output,
      element('label', { for: 'what-if-update' }, 'ping-update-status-interval, s'),
      this.update.input,
      this.update.output,
      this.report,
    );
  }

  #toggle() {
    const isOpening = this.root.hidden;
    if (!isOpening) this.#leave();
    this.root.hidden = !isOpening;
    this.opener.setAttribute('aria-expanded', String(isOpening));
    if (isOpening) this.minutes.focus();
  }

  async #load() {
    this.#play(false);
    setText(this.said, 'Reading …');
    this.wish += 1;
    const { wish } = this;
    const minutes = Number(this.minutes.value);
    /** @type {PastFilm | undefined} */
    const film = await this.#ask({ minutes }, () => wish === this.wish);
    if (film === undefined) return;
    if (film.frames.length === 0) return setText(this.said, 'Nothing happened in that time.');
    this.film = film;
    this.filmMinutes = minutes;
    this.shown = 0;
    this.page.onMode(true);
    this.controls.hidden = false;
    this.whatIf.hidden = false;
    this.threshold.set(film.recorded.lossThreshold);
    this.update.set(film.recorded.updateStatusIntervalMs / 1000);
    this.report.hidden = true;
    this.time.max = String(film.frames.length - 1);
    setText(this.said, [`${film.frames.length} seconds`, ...film.notes].join('; '));
    this.#seek(film.frames.length - 1);
  }

  /** @param {number} frame */
  #seek(frame) {
    const { frames } = this.film ?? { frames: [] };
    if (frame < this.shown || this.shown === 0) {
      this.shown = 0;
      this.page.show({ revision: 0, reset: true });
    }
    for (; this.shown <= frame; this.shown++) {
      const { reset: _, ...patch } = frames[this.shown]?.patch ?? { revision: 0 };
      this.page.show(patch);
    }
    this.time.value = String(frame);
    const words = timeWords(frames[frame]?.atUnixMs ?? 0);
    setText(this.clock, words);
    this.time.setAttribute('aria-valuetext', words);
  }

  /** @param {boolean} isPlaying */
  #play(isPlaying) {
    clearInterval(this.playing);
    this.playing = undefined;
    setText(this.play, isPlaying ? 'Pause' : 'Play');
    if (!isPlaying) return;
    const last = (this.film?.frames.length ?? 1) - 1;
    let at = Number(this.time.value) >= last ? 0 : Number(this.time.value);
    this.playing = setInterval(() => {
      at = Math.min(last, at + (Number(this.speed.value) * STEP_MS) / 1000);
      this.#seek(Math.floor(at));
      if (at >= last) this.#play(false);
    }, STEP_MS);
  }

  async #judge() {
    const whatIf = {
      lossThreshold: this.threshold.input.valueAsNumber,
      updateStatusIntervalMs: this.update.input.valueAsNumber * 1000,
    };
    this.question += 1;
    const { wish, question, filmMinutes: minutes } = this;
    const isAwaited = () => wish === this.wish && question === this.question;
    /** @type {PastReport | undefined} */
    const report = await this.#ask({ minutes, whatIf }, isAwaited);
    if (report === undefined) return;
    this.report.hidden = false;
    this.report.replaceChildren(reportTable(report));
    setText(this.said, 'Judged anew.');
  }

  /**
   * @param {{ minutes: number, whatIf?: object }} query
   * @param {() => boolean} isAwaited whether the answer is still wanted
   * @returns {Promise<any>} nothing where it is not wanted any more, or was refused: then the reason is shown
   */
  async #ask(query, isAwaited) {
    try {
      const body = JSON.stringify(query);
      const response = await fetch('past', { method: 'POST', headers: { 'content-type': 'application/json' }, body });
      if (!response.ok) throw new Error(await response.text());
      const answer = await response.json();
      return isAwaited() ? answer : undefined;
    } catch (error) {
      if (!isAwaited()) return undefined;
      setText(this.said, `Not possible: ${/** @type {Error} */ (error).message}`);
      return undefined;
    }
  }

  #leave() {
    this.#play(false);
    this.wish += 1;
    setText(this.said, '');
    if (!this.isOn) return;
    this.film = undefined;
    this.controls.hidden = true;
    this.whatIf.hidden = true;
    this.page.onMode(false);
  }
}

/** @param {PastReport} report */
function reportTable({ base, variants }) {
  const rows = [base, ...variants].map(({ label, statistics }) => [
    label,
    String(statistics.outages.length),
    String(statistics.flaps),
    String(statistics.writes.tunnels + statistics.writes.aggregates),
    `${(statistics.timeInStateMs.Error / 1000).toFixed(1)} s`,
  ]);
  const head = ['', 'Outages', 'Flaps', 'API writes', 'Time in Error'].map((text) =>
    element('th', { scope: 'col' }, text),
  );
  return element(
    'table',
    { class: 'functions' },
    element('thead', {}, element('tr', {}, ...head)),
    element(
      'tbody',
      {},
      ...rows.map(([label = '', ...cells]) =>
        element(
          'tr',
          {},
          element('th', { scope: 'row' }, label),
          ...cells.map((text) => element('td', { class: 'number' }, text)),
        ),
      ),
    ),
  );
}

/** @param {string} id @param {readonly number[]} values @param {(value: number) => string} words @param {number} chosen */
function select(id, values, words, chosen) {
  return element(
    'select',
    { id },
    ...values.map((value) => element('option', { value: String(value), selected: value === chosen }, words(value))),
  );
}

/** @param {string} id @param {number} min @param {number} max @param {number} value */
function slider(id, min, max, value) {
  const input = element('input', {
    id,
    type: 'range',
    min: String(min),
    max: String(max),
    step: '1',
    value: String(value),
  });
  const output = element('output', { for: id }, String(value));
  input.addEventListener('input', () => setText(output, input.value));
  /** @param {number} next */
  const set = (next) => {
    input.value = String(next);
    setText(output, input.value);
  };
  return { input, output, set };
}

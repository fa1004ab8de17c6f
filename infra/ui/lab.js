/** @import { PageLab } from '../../shared/domain/page-patch.ts' */
/** @import { Model } from './model.js' */
/** @import { TunnelRow } from './tunnel-row.js' */
import { byId, element, setText } from './dom.js';

const MAX_TUNNELS = 64;
const LOSS_RATE = 0.3;
const DELAY_MS = 40;

/** What one may do to the lab, and what is being done to it. Without a lab it stays hidden. */
export class Lab {
  /** @param {Model} model @param {string} controlToken */
  constructor(model, controlToken) {
    this.model = model;
    this.controlToken = controlToken;
    this.root = byId('lab');
    this.answer = element('p', { role: 'status', class: 'answer' });
    this.tunnels = element('input', {
      id: 'lab-tunnels',
      type: 'number',
      min: '1',
      max: String(MAX_TUNNELS),
      value: '4',
    });
    this.replicas = element('div', { class: 'buttons' });
    const scale = element(
      'form',
      { class: 'scale' },
      element('label', { for: 'lab-tunnels' }, 'Tunnels'),
      this.tunnels,
      element('button', {}, 'Scale'),
    );
    scale.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.do({ scale: this.tunnels.valueAsNumber });
    });
    this.root.append(
      element('h2', { id: 'lab-title' }, 'Lab'),
      scale,
      element('p', { class: 'hint' }, 'Kill one replica of a function; another takes its place:'),
      this.replicas,
      this.answer,
    );
  }

  /** @param {TunnelRow} row */
  addTools({ interfaceId, tools }) {
    const buttons = {
      cut: this.#tool('Cut', interfaceId, { cut: [interfaceId] }),
      lose: this.#tool(`Lose ${Math.round(100 * LOSS_RATE)} %`, interfaceId, {
        lose: { tunnels: [interfaceId], rate: LOSS_RATE },
      }),
      delay: this.#tool(`Delay ${DELAY_MS} ms`, interfaceId, {
        delay: { tunnels: [interfaceId], by: `${DELAY_MS}ms` },
      }),
      heal: this.#tool('Heal', interfaceId, { restore: [interfaceId] }),
    };
    tools.append(...Object.values(buttons));
    tools.dataset.interface = interfaceId;
    this.#mark(tools, this.model.lab);
  }

  draw() {
    const { lab } = this.model;
    this.root.hidden = lab === undefined;
    if (lab === undefined) return;
    if (document.activeElement !== this.tunnels) this.tunnels.value = String(lab.tunnels);
    if (this.replicas.children.length !== lab.functions.length) {
      this.replicas.replaceChildren(
        ...lab.functions.map(({ name }) =>
          element(
            'button',
            { type: 'button', class: 'quiet', onclick: () => void this.do({ crash: name }) },
            `Kill ${name}`,
          ),
        ),
      );
    }
    for (const tools of document.querySelectorAll('.tools')) this.#mark(/** @type {HTMLElement} */ (tools), lab);
  }

  /** @param {unknown} action in the words of a scenario's step */
  async do(action) {
    try {
      const response = await fetch('control', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-wg-keepalive-control': this.controlToken },
        body: JSON.stringify(action),
      });
      if (!response.ok) throw new Error(await response.text());
      setText(this.answer, (await response.json()).done);
    } catch (error) {
      setText(this.answer, `Not done: ${/** @type {Error} */ (error).message}`);
    }
  }

  /** @param {string} label @param {string} interfaceId @param {unknown} action */
  #tool(label, interfaceId, action) {
    return element(
      'button',
      { type: 'button', class: 'quiet', 'aria-label': `${label}: ${interfaceId}`, onclick: () => void this.do(action) },
      label,
    );
  }

  /** Says what is done to the tunnel. @param {HTMLElement} tools @param {PageLab | undefined} lab */
  #mark(tools, lab) {
    const found = lab?.impairments.find(({ interfaceId }) => interfaceId === tools.dataset.interface);
    const [cut, lose, delay, heal] = /** @type {HTMLButtonElement[]} */ ([...tools.children]);
    cut?.classList.toggle('on', found?.cut ?? false);
    lose?.classList.toggle('on', (found?.lossRate ?? 0) > 0);
    delay?.classList.toggle('on', (found?.delayMs ?? 0) > 0);
    if (heal) heal.disabled = found === undefined;
  }
}

import type { PageImpairment } from '../../shared/domain/page-patch.ts';
import { interfaceIdOf } from '../../shared/domain/tunnel-interface.ts';
import type { LabImpairment } from './lab.ts';

const HEALTHY = { cut: false, delayMs: 0, lossRate: 0 } as const;

/** What a lab does to its tunnels, for those who look at it. */
export class Impairments {
  readonly #byInterface = new Map<string, PageImpairment>();

  cut(interfaceId: string): void {
    this.#byInterface.set(interfaceId, { ...this.#of(interfaceId), cut: true });
  }

  impair(interfaceId: string, { delayMs = 0, lossRate = 0 }: LabImpairment): void {
    this.#byInterface.set(interfaceId, { ...this.#of(interfaceId), delayMs, lossRate });
  }

  restore(interfaceId: string): void {
    this.#byInterface.delete(interfaceId);
  }

  /** Tunnels beyond this number are no more. */
  scale(tunnels: number): void {
    const left = new Set(Array.from({ length: tunnels }, (_, index) => interfaceIdOf(index)));
    for (const interfaceId of this.#byInterface.keys()) if (!left.has(interfaceId)) this.restore(interfaceId);
  }

  list(): readonly PageImpairment[] {
    return [...this.#byInterface.values()];
  }

  #of(interfaceId: string): PageImpairment {
    return this.#byInterface.get(interfaceId) ?? { interfaceId, ...HEALTHY };
  }
}

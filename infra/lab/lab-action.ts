import { CATALOG } from '../../functions/catalog.ts';
import { parseDuration } from '../../shared/domain/duration.ts';
import { GATEWAY_MODES, type GatewayMode, interfaceIdOf, MAX_TUNNELS } from '../../shared/domain/tunnel-interface.ts';
import type { ScenarioLab } from './lab.ts';

/**
 * What may be done to a lab, in the words of a scenario's steps; the page and its buttons use the same.
 */
export type Action =
  | { readonly cut: readonly string[] }
  | { readonly restore: readonly string[] }
  | { readonly lose: { readonly tunnels: readonly string[]; readonly rate: number; readonly from?: GatewayMode } }
  | { readonly delay: { readonly tunnels: readonly string[]; readonly by: string; readonly from?: GatewayMode } }
  | { readonly scale: number }
  | { readonly crash: string }
  | { readonly 'restart-gateway': GatewayMode }
  | { readonly nats: 'down' | 'up' }
  | { readonly 'slow-api': string }
  | { readonly 'step-clock': string };

type KeysOf<Union> = Union extends unknown ? keyof Union : never;
type ActionName = KeysOf<Action>;

const interfaceIds = Array.from({ length: MAX_TUNNELS }, (_, index) => interfaceIdOf(index));
const functionNames = CATALOG.map(({ manifest }) => manifest.name);

/** Every `description` completes "want …". */
export const interfaceName = { enum: interfaceIds, description: 'the name of a tunnel: liqo-tunnel, liqo-tunnel1, …' };
export const tunnelCount = {
  type: 'integer',
  minimum: 1,
  maximum: MAX_TUNNELS,
  description: `an integer from 1 to ${MAX_TUNNELS}`,
};
/** `format: 'duration'` is the caller's to add. */
export const durationText = {
  type: 'string',
  format: 'duration',
  description: 'a duration such as 500ms or 2s',
} as const;
const signedDurationText = {
  type: 'string',
  format: 'signed-duration',
  description: 'a duration such as 1h, or -1h to go back',
} as const;
const someInterfaces = { type: 'array', minItems: 1, items: interfaceName, description: 'a list of tunnels' };
const side = { enum: GATEWAY_MODES, description: 'server or client' };

function impairment(name: string, amount: object, description: string) {
  return {
    type: 'object',
    required: ['tunnels', name],
    properties: { tunnels: someInterfaces, [name]: amount, from: side },
    additionalProperties: false,
    description,
  };
}

/** JSON Schemas by the name of the action. */
export const actionSchemas = {
  cut: someInterfaces,
  restore: someInterfaces,
  lose: impairment(
    'rate',
    { type: 'number', minimum: 0, maximum: 1, description: 'a number from 0 to 1' },
    'tunnels, rate, and from where only one way',
  ),
  delay: impairment('by', durationText, 'tunnels, by, and from where only one way'),
  scale: tunnelCount,
  crash: { enum: functionNames, description: `one of ${functionNames.join(', ')}` },
  'restart-gateway': side,
  nats: { enum: ['down', 'up'], description: 'down or up' },
  'slow-api': durationText,
  'step-clock': signedDurationText,
} as const satisfies Record<ActionName, object>;

/** The formats that the schemas name, for ajv. */
export const actionFormats = {
  duration: (text: string) => (parseDuration(text) ?? -1) >= 0,
  'signed-duration': (text: string) => signedMs(text) !== undefined,
};

/** Tunnels that an action names. */
export function tunnelsOf(action: Action): readonly string[] {
  if ('cut' in action) return action.cut;
  if ('restore' in action) return action.restore;
  if ('lose' in action) return action.lose.tunnels;
  return 'delay' in action ? action.delay.tunnels : [];
}

/** @throws whatever the lab throws */
export async function carryOut(lab: ScenarioLab, action: Action): Promise<void> {
  if ('scale' in action) return lab.scale(action.scale);
  if ('crash' in action) return lab.crash(action.crash);
  if ('restart-gateway' in action) return lab.restartGateway(action['restart-gateway']);
  if ('nats' in action) return lab.setNats(action.nats === 'up');
  if ('slow-api' in action) return lab.slowApi(parseDuration(action['slow-api']) ?? 0);
  if ('step-clock' in action) return lab.stepClock(signedMs(action['step-clock']) ?? 0);
  await Promise.all(tunnelsOf(action).map((interfaceId) => changeTunnel(lab, interfaceId, action)));
}

async function changeTunnel(lab: ScenarioLab, interfaceId: string, action: Action): Promise<void> {
  if ('cut' in action) return lab.cut(interfaceId);
  if ('restore' in action) return lab.restore(interfaceId);
  if ('lose' in action) {
    const { rate, from } = action.lose;
    return lab.impair(interfaceId, { lossRate: rate, ...(from && { from }) });
  }
  if ('delay' in action) {
    const { by, from } = action.delay;
    return lab.impair(interfaceId, { delayMs: parseDuration(by) ?? 0, ...(from && { from }) });
  }
}

/** What an action did, for people. */
export function actionWords(action: Action): string {
  if ('scale' in action) return `scaled to ${action.scale} tunnels`;
  if ('crash' in action) return `killed a replica of ${action.crash}, another took its place`;
  if ('restart-gateway' in action)
    return `killed the ${action['restart-gateway']}'s gateway, another run took its place`;
  if ('nats' in action) return `NATS is ${action.nats}`;
  if ('slow-api' in action) return `the API takes ${action['slow-api']} longer`;
  if ('step-clock' in action) return `wall clocks stepped by ${action['step-clock']}`;
  const names = tunnelsOf(action).join(', ');
  if ('cut' in action) return `cut ${names}`;
  if ('restore' in action) return `healed ${names}`;
  const oneWay = (from: GatewayMode | undefined) => (from === undefined ? '' : ` of what the ${from} sends`);
  if ('lose' in action) return `${names} loses ${Math.round(100 * action.lose.rate)} %${oneWay(action.lose.from)}`;
  return `${names} is ${action.delay.by} slower${oneWay(action.delay.from)}`;
}

function signedMs(text: string): number | undefined {
  const isBack = text.startsWith('-');
  const ms = parseDuration(isBack ? text.slice(1) : text);
  return ms === undefined ? undefined : isBack ? -ms : ms;
}

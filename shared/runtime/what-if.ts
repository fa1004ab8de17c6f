import type { FunctionSettings } from '../domain/function-settings.ts';
import { OBSERVATION_TYPE, tunnelEventSchema } from '../domain/observation.ts';
import type { RecordedMessage } from '../domain/recorded-message.ts';
import { Rejudge, type VerdictSettings } from '../domain/rejudge.ts';
import { type ReplayStatistics, StatisticsCollector } from '../domain/replay-statistics.ts';
import { SilenceRejudge } from '../domain/silence-rejudge.ts';
import type { FunctionDefinition } from './define-function.ts';
import { eventChecker } from './event-decoder.ts';
import { Replay } from './replay.ts';

/** Settings to judge a window by; what is left out stays as it was recorded. */
export type WhatIfSettings = {
  readonly verdict?: VerdictSettings;
  readonly gatewaySilentAfterMs?: number;
  readonly updateStatusIntervalMs?: number;
};

export type WhatIfVariant = { readonly label: string; readonly settings: WhatIfSettings };

export type WhatIfOptions = {
  readonly functions: { readonly tunnelStatus: FunctionDefinition; readonly connectionAggregate: FunctionDefinition };
  /** How the window was recorded. */
  readonly recorded: VerdictSettings & FunctionSettings;
  /** As a {@link Replay} takes it. */
  readonly fromStreamStart?: boolean;
  /** The first one is what the others are compared to. */
  readonly variants: readonly WhatIfVariant[];
};

type Stage = { take(message: RecordedMessage): readonly RecordedMessage[] };

/** The same observations, judged by several settings side by side, each in a sandbox of its own. */
export class WhatIf {
  readonly #check = eventChecker([{ type: OBSERVATION_TYPE, schema: tunnelEventSchema }]);
  readonly #variants: readonly {
    readonly label: string;
    readonly stages: readonly Stage[];
    readonly replay: Replay;
    readonly statistics: StatisticsCollector;
  }[];

  /** @throws RangeError for settings that the recording cannot answer */
  constructor({ functions, recorded, fromStreamStart = false, variants }: WhatIfOptions) {
    this.#variants = variants.map(({ label, settings }) => {
      const statistics = new StatisticsCollector();
      const { updateStatusIntervalMs = recorded.updateStatusIntervalMs } = settings;
      const replay = new Replay({
        ...functions,
        fromStreamStart,
        settings: { ...recorded, updateStatusIntervalMs },
        onStep: (step) => statistics.take(step),
      });
      return { label, stages: stagesOf(settings, recorded), replay, statistics };
    });
  }

  async take(message: RecordedMessage): Promise<void> {
    const isValid = message.event !== undefined && !('error' in this.#check(message.event));
    for (const { stages, replay } of this.#variants) {
      let messages: readonly RecordedMessage[] = [message];
      if (isValid) for (const stage of stages) messages = messages.flatMap((one) => stage.take(one));
      for (const one of messages) await replay.take(one);
    }
  }

  /** @param endUnixMs end of the window */
  results(endUnixMs: number): readonly { readonly label: string; readonly statistics: ReplayStatistics }[] {
    return this.#variants.map(({ label, statistics }) => ({ label, statistics: statistics.read(endUnixMs) }));
  }
}

function stagesOf({ verdict, gatewaySilentAfterMs }: WhatIfSettings, recorded: VerdictSettings): readonly Stage[] {
  const stages: Stage[] = [];
  if (gatewaySilentAfterMs !== undefined) stages.push(new SilenceRejudge(gatewaySilentAfterMs));
  if (verdict !== undefined) stages.push(new Rejudge(recorded, verdict));
  return stages;
}

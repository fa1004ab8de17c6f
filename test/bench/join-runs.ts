import { UsageError } from '../../shared/cli/errors.ts';
import type { BenchRun } from './result.ts';

/**
 * A run that is taken in parts, each while the machine was quiet: what `later` has measured joins what `earlier` has, or
 * takes its place.
 *
 * @throws UsageError where the two are no parts of one run
 */
export function joinRuns(earlier: BenchRun, later: BenchRun): BenchRun {
  const alike = {
    repeats: [earlier.repeats, later.repeats],
    'duration in ms': [earlier.durationMs, later.durationMs],
    CPU: [earlier.machine.cpu, later.machine.cpu],
    cores: [earlier.machine.cores, later.machine.cores],
    niceness: [earlier.machine.niceness, later.machine.niceness],
    'real-time class': [earlier.machine.isRealTime ?? false, later.machine.isRealTime ?? false],
  };
  for (const [what, [before, now]] of Object.entries(alike)) {
    if (before !== now) throw new UsageError(`--resume: ${what} is ${now}, the kept run has ${before}`);
  }
  const suites = new Map([...earlier.suites, ...later.suites].map((suite) => [suite.name, suite]));
  return {
    ...later,
    startedAt: earlier.startedAt,
    tookMs: earlier.tookMs + later.tookMs,
    parts: (earlier.parts ?? 1) + 1,
    machine: {
      ...later.machine,
      loadAtStart: Math.max(earlier.machine.loadAtStart, later.machine.loadAtStart),
      loadAtEnd: Math.max(earlier.machine.loadAtEnd, later.machine.loadAtEnd),
    },
    versions: joinVersions(earlier.versions, later.versions),
    suites: [...suites.values()].sort((a, b) => a.name.localeCompare(b.name)),
  };
}

function joinVersions(earlier: BenchRun['versions'], later: BenchRun['versions']): BenchRun['versions'] {
  const join = (name: string, now: string) => {
    const before = earlier[name]?.split(' and ') ?? [];
    return [...new Set([...before, now])].join(' and ');
  };
  return Object.fromEntries(Object.entries(later).map(([name, now]) => [name, join(name, now)]));
}

import type { Reporter, TestModule } from 'vitest/node';

/** What a run came to. Errors outside tests (a file that does not load, a failed hook) count as failed. */
export class Summary implements Reporter {
  passed = 0;
  failed = 0;
  skipped = 0;
  /** Titles of suites that were left out, with their files. */
  readonly leftOut: string[] = [];

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    this.failed += unhandledErrors.length;
    for (const module of modules) this.#add(module);
  }

  #add(module: TestModule): void {
    this.failed += module.errors().length;
    for (const suite of module.children.allSuites()) {
      this.failed += suite.errors().length;
      if (suite.options.mode === 'skip') this.leftOut.push(`${module.relativeModuleId}: ${suite.fullName}`);
    }
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      if (state === 'passed') this.passed++;
      else if (state === 'failed') this.failed++;
      else this.skipped++;
    }
  }

  /** `12 passed, 0 failed, 3 skipped` */
  toString(): string {
    const skipped = this.skipped > 0 ? `, ${this.skipped} skipped` : '';
    return `${this.passed} passed, ${this.failed} failed${skipped}`;
  }
}

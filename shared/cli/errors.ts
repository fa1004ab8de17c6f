/** What ends a process with exit code 2: its message is all that the user needs, so no stack is printed. */
export class StartError extends Error {
  readonly code: string = 'START';

  /** @param message what went wrong, where, and what to do, in one line */
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StartError';
  }
}

/** Somebody stopped the process: whatever ends because of it is no fault. */
export class Interrupted extends Error {
  constructor(signal: NodeJS.Signals) {
    super(`stopped by ${signal}`);
    this.name = 'Interrupted';
  }

  /** Whether this is where an error came from. */
  static isCauseOf(error: unknown): boolean {
    if (error instanceof Interrupted) return true;
    return error instanceof Error && Interrupted.isCauseOf(error.cause);
  }
}

/** A flag, a variable or an argument that cannot be used: the message names it, its value and what is wanted. */
export class UsageError extends StartError {
  override readonly code = 'USAGE';

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'UsageError';
  }
}

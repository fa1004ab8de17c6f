/** What ends a process with exit code 2: its message is all that the user needs, so no stack is printed. */
export class StartError extends Error {
  readonly code: string = 'START';

  /** @param message what went wrong, where, and what to do, in one line */
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StartError';
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

/** The deepest cause that says something: wrappers such as "fetch failed" do not. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return error.cause instanceof Error ? reasonOf(error.cause) : error.message;
}

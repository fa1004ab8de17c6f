/** It failed while it ran. */
export const EXIT_FAILED = 1;
/** It could not start: what the user gave it cannot be used, or what it needs is not there. */
export const EXIT_NOT_STARTED = 2;
/** What a shell says of a process that SIGINT ended. */
export const EXIT_INTERRUPTED = 130;

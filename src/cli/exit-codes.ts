/** Exit statuses of every command; in the help and docs/flags.md. */
export const EXIT_FINE = 0;
export const EXIT_FAILED = 1;
/** What was asked for makes no sense: unknown flags, wrong values, a bad configuration file. */
export const EXIT_USAGE = 2;

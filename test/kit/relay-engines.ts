/** Every engine that relays, as `--relay` names it: what holds for one has to hold for all. */
export const RELAY_ENGINES = ["stream", "syscall"] as const;

// Guarantee violations, grouped into the entries of a list.

import type { Breach, TooLong } from "./model";

/** Violations of one guarantee in one second for one reason: their number, and the worst one (the longest delay of a packet, or the lowest rate). */
export interface Entry {
  breach: Breach;
  times: number;
}

/** Delay of a packet, in nanoseconds. */
export function stay(late: TooLong): number {
  return (late.handed_over_ns ?? late.end_ns) - late.arrival_ns;
}

/** Puts all violations with the same text from `meaning` into one entry, even if other violations lie between them. The entry has the place of its first violation in the list. */
export function entries(all: Breach[]): Entry[] {
  const list = new Map<string, Entry>();
  for (const breach of all) {
    const says = meaning(breach);
    const known = list.get(says);
    if (known === undefined) list.set(says, { breach, times: 1 });
    else {
      known.times += 1;
      if (isWorse(breach, known.breach)) known.breach = breach;
    }
  }
  return [...list.values()];
}

/** Text of the properties that the violations of one entry share: second, guarantee, cause and flow. */
function meaning(breach: Breach): string {
  const second = (nanos: number) => Math.floor(nanos / 1e9);
  return breach.kind === "rate"
    ? `rate ${second(breach.begin_ns)} ${breach.guaranteed} ${breach.flow}`
    : `delay ${second(breach.arrival_ns)} ${breach.bound_ns} ${breach.cause} ${breach.flow}`;
}

/** Returns true if violation `a` has the longer delay, or the lower rate; both belong to one entry. */
function isWorse(a: Breach, b: Breach): boolean {
  if (a.kind === "rate") return b.kind === "rate" && a.sent < b.sent;
  return b.kind === "delay" && stay(a) > stay(b);
}

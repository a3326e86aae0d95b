// Violated guarantees, as entries of a list.

import type { Breach, TooLong } from "./model";

/** Violations of one guarantee in one second for one reason: their number, and the worst one, that is the packet with the longest delay or the lowest rate. */
export interface Entry {
  breach: Breach;
  times: number;
}

/** Delay of a packet, in nanoseconds. */
export function stay(late: TooLong): number {
  return (late.handed_over_ns ?? late.end_ns) - late.arrival_ns;
}

/** Joins violations of the same meaning, also if others lie between them; an entry stands where its first violation was. */
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

/** The properties that violations of one entry share: second, guarantee, cause and flow. */
function meaning(breach: Breach): string {
  const second = (nanos: number) => Math.floor(nanos / 1e9);
  return breach.kind === "rate"
    ? `rate ${second(breach.begin_ns)} ${breach.guaranteed} ${breach.flow}`
    : `delay ${second(breach.arrival_ns)} ${breach.bound_ns} ${breach.cause} ${breach.flow}`;
}

function isWorse(a: Breach, b: Breach): boolean {
  if (a.kind === "rate") return b.kind === "rate" && a.sent < b.sent;
  return b.kind === "delay" && stay(a) > stay(b);
}

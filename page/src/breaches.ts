// Broken promises, as entries of a list.

import type { Breach, TooLong } from "./model";

/** Packets that stayed too long in one second for one reason, and the one of them that stayed longest; or a rate. */
export interface Entry {
  breach: Breach;
  packets: number;
}

/** How long a packet stayed, in nanoseconds. */
export function stay(late: TooLong): number {
  return (late.handed_over_ns ?? late.end_ns) - late.arrival_ns;
}

/** In their order, those that say the same as the one before joined to it. */
export function entries(all: Breach[]): Entry[] {
  const list: Entry[] = [];
  for (const breach of all) {
    const last = list.at(-1);
    if (last === undefined || !isAlike(last.breach, breach)) list.push({ breach, packets: 1 });
    else {
      last.packets += 1;
      if (breach.kind === "delay" && last.breach.kind === "delay" && stay(breach) > stay(last.breach)) last.breach = breach;
    }
  }
  return list;
}

function isAlike(a: Breach, b: Breach): boolean {
  if (a.kind === "rate" || b.kind === "rate") return false;
  const second = (late: TooLong) => Math.floor(late.arrival_ns / 1e9);
  return a.cause === b.cause && a.bound_ns === b.bound_ns && second(a) === second(b);
}

// Link occupancy over time: the part of it that is drawn.

import { readTime } from "./format";
import type { Link, Turn } from "./model";

/** So many cycles are shown. */
const CYCLES = 4;

/** Times of one flow on the link, from the start of what is shown. */
export interface Row {
  flow: string;
  /** Begin and length, nanoseconds. */
  held: [number, number][];
  /** When its gate is open, if the discipline has gates. */
  open: [number, number][];
  /** Its part of what is shown. */
  share: number;
}

export interface Timeline {
  /** What is shown: so long, from this instant on. */
  begin: number;
  length: number;
  /** From the start of one cycle to the next; none where the discipline has none. */
  cycle: number | null;
  rows: Row[];
}

/** The cycle of a link whose flows have gates. */
export function gatesCycle(link: Link): number | null {
  return readTime(link.scheduler?.cycle);
}

/** The cycle of a discipline that has one: of gates as it is set, of phases when all are used. */
export function cycle(link: Link): number | null {
  const phases = Object.values(link.flow ?? {}).reduce((sum, flow) => sum + (readTime(flow.phase) ?? 0), 0);
  return gatesCycle(link) ?? (phases > 0 ? phases : null);
}

function gates(link: Link, flow: string, begin: number, length: number): [number, number][] {
  const keys = link.flow?.[flow];
  // A gate may open several times in a cycle.
  const every = readTime(keys?.every) ?? readTime(link.scheduler?.cycle);
  if (gatesCycle(link) === null || every === null || keys === undefined) return [];
  const opens = readTime(keys.opens) ?? 0;
  const open = readTime(keys.open) ?? every - opens;
  const all: [number, number][] = [];
  for (let at = Math.floor(begin / every) * every + opens - every; at < begin + length; at += every) {
    const from = Math.max(at, begin);
    const to = Math.min(at + open, begin + length);
    if (to > from) all.push([from - begin, to - from]);
  }
  return all;
}

/** The newest cycles that are whole; where there are none, what a few packets of each flow take. */
export function timeline(link: Link, turns: Turn[]): Timeline {
  // A flow that is divided has its parts instead.
  const flows = Object.entries(link.flow ?? {}).flatMap(([name, keys]) => (keys.flow === undefined ? [name] : []));
  const [end, oldest] = [turns.at(-1)?.end_ns ?? 0, turns[0]?.begin_ns ?? 0];
  const every = cycle(link);
  const recent = turns.slice(-8 * Math.max(1, flows.length));
  const wanted = every !== null ? CYCLES * every : end - (recent[0]?.begin_ns ?? 0);
  const length = Math.max(1, Math.min(wanted, end - oldest));
  // Gates open by the clock: what is shown begins with a cycle.
  const begin = gatesCycle(link) !== null && every !== null ? Math.floor((end - length) / every) * every : end - length;
  const known = new Set([...flows, ...turns.map((turn) => turn.flow)]);
  const rows = [...known].map((flow) => {
    const held = turns
      .filter((turn) => turn.flow === flow && turn.end_ns > begin && turn.begin_ns < begin + length)
      .map(({ begin_ns, end_ns }): [number, number] => {
        const from = Math.max(begin_ns, begin);
        return [from - begin, Math.min(end_ns, begin + length) - from];
      });
    const share = held.reduce((sum, [, length]) => sum + length, 0) / length;
    return { flow, held, open: gates(link, flow, begin, length), share };
  });
  return { begin, length, cycle: every, rows: rows.filter((row) => row.held.length > 0 || flows.includes(row.flow)) };
}

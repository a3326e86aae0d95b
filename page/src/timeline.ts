// Computes the part of the link's occupancy over time that is drawn.

import { readTime } from "./format";
import type { Link, Turn } from "./model";

/** Number of cycles that are shown. */
const CYCLES = 4;

/** Link occupancy by one flow; times count from the start of the drawn interval. */
export interface Row {
  flow: string;
  /** Intervals in which the flow held the link: begin and length, in nanoseconds. */
  held: [number, number][];
  /** Intervals in which the flow's gate is open, in the same form; empty if the discipline has no gates. */
  open: [number, number][];
  /** Share of the drawn interval for which the flow held the link. */
  share: number;
}

/** The drawn part of the link's occupancy. */
export interface Timeline {
  /** Start and length of the drawn interval, in nanoseconds. */
  begin: number;
  length: number;
  /** Length of a cycle, in nanoseconds; null if the discipline has no cycles. */
  cycle: number | null;
  rows: Row[];
}

/** Length of the gates' cycle, in nanoseconds; null if the link has no gates. */
export function gatesCycle(link: Link): number | null {
  return readTime(link.scheduler?.cycle);
}

/** Length of a cycle, in nanoseconds: with gates the configured length, with phases the sum of the phases; null for other disciplines. */
export function cycle(link: Link): number | null {
  const phases = Object.values(link.flow ?? {}).reduce((sum, flow) => sum + (readTime(flow.phase) ?? 0), 0);
  return gatesCycle(link) ?? (phases > 0 ? phases : null);
}

/** Intervals in which the flow's gate is open, cut to the drawn interval. Their times count from the start of that interval. */
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

/** The interval to draw, with its rows: the newest cycles, or without cycles the last turns, eight for each flow on average. */
export function timeline(link: Link, turns: Turn[]): Timeline {
  // For a divided flow, its parts have rows, and the flow itself has none.
  const flows = Object.entries(link.flow ?? {}).flatMap(([name, keys]) => (keys.flow === undefined ? [name] : []));
  const [end, oldest] = [turns.at(-1)?.end_ns ?? 0, turns[0]?.begin_ns ?? 0];
  const every = cycle(link);
  const recent = turns.slice(-8 * Math.max(1, flows.length));
  const wanted = every !== null ? CYCLES * every : end - (recent[0]?.begin_ns ?? 0);
  const length = Math.max(1, Math.min(wanted, end - oldest));
  // Gates open by the clock, so the drawn interval begins at the start of a cycle.
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

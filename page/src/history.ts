// Measurements of the last minutes, by flow and direction.

import type { Adapter, Flow, HistoryStep, Sample, Way } from "./model";

/** Maximum number of samples that are kept: five minutes, as there is one sample a second. */
export const KEPT = 300;

/** A value for each sample; null if the sample has no value. */
export type Column = (number | null)[];

/** Adds to each column all columns that follow, so that the first column is the sum of all. If the areas are drawn in this order, each covers the lower part of the areas before it. */
export function stacked(columns: Column[]): Column[] {
  return columns.map((column, n) =>
    column.map((value, at) => (value === null ? null : columns.slice(n).reduce((sum, part) => sum + (part[at] ?? 0), 0))),
  );
}

/** Columns of values for charts: rates in bits per second, delays in nanoseconds. `at` is the time of each value, in seconds since 1970. */
export interface Series {
  at: number[];
  offered: Column;
  sent: Column;
  guaranteedRate: Column;
  p50: Column;
  p99: Column;
  max: Column;
  guaranteedDelay: Column;
  backlog: Column;
  /** Number of dropped packets, by reason. */
  dropped: Map<string, Column>;
  broken: Column;
}

/** The service's measurements of the last hour as columns; `began` is the start of the service, in seconds since 1970. */
export function hour(steps: HistoryStep[], began: number): Series {
  const column = (value: (step: HistoryStep) => number | null): Column => steps.map(value);
  const reasons = new Set(steps.flatMap((step) => Object.keys(step.dropped)));
  return {
    at: steps.map((step) => began + step.end_ns / 1e9),
    offered: column((step) => step.offered),
    sent: column((step) => step.sent),
    guaranteedRate: column((step) => step.rate),
    p50: column((step) => step.p50_ns),
    p99: column((step) => step.p99_ns),
    max: column((step) => step.max_ns),
    guaranteedDelay: column((step) => step.delay_ns),
    backlog: column((step) => step.backlog),
    dropped: new Map([...reasons].map((why) => [why, column((step) => step.dropped[why] ?? 0)])),
    broken: column((step) => step.broken),
  };
}

/** Names and rates of the adapters that send the most, `most` of them at the maximum. If there are more adapters, a last entry is the sum of the others. */
export function largest(tracks: [string, Track][], most: number): [string, Column][] {
  const sum = (column: Column) => column.reduce((total: number, value) => total + (value ?? 0), 0);
  const ordered = [...tracks].sort(([, a], [, b]) => sum(b.sent) - sum(a.sent));
  const length = Math.max(0, ...tracks.map(([, track]) => track.at.length));
  const padded = (column: Column): Column => [...Array<null>(length - column.length).fill(null), ...column];
  const own = ordered.slice(0, most).sort(([a], [b]) => a.localeCompare(b)).map(([name, track]): [string, Column] => [name, padded(track.sent)]);
  const rest = ordered.slice(most).map(([, track]) => padded(track.sent));
  if (rest.length === 0) return own;
  const others = Array.from({ length }, (_, n) => rest.reduce((total, column) => total + (column[n] ?? 0), 0));
  return [...own, [`${rest.length} others`, others]];
}

/** Measurements of one flow in one direction over the last minutes. */
export class Track implements Series {
  at: number[] = [];
  offered: Column = [];
  sent: Column = [];
  guaranteedRate: Column = [];
  p50: Column = [];
  p99: Column = [];
  max: Column = [];
  guaranteedDelay: Column = [];
  backlog: Column = [];
  /** Number of packets dropped in each second, by reason. */
  dropped = new Map<string, Column>();
  /** Number of guarantee violations in each second. Packets that exceeded the delay bound because of the sender or of the host do not count. */
  broken: Column = [];
  /** Number of times in the last second that the adapter used up its processor time in the link's thread, while it and another adapter had more packets. */
  heldBack: number | null = null;
  private wasHeldBack: number | null = null;
  last: Flow | null = null;

  push(at: number, flow: Flow, adapter: Adapter): void {
    const { window, guarantee } = flow;
    this.at.push(at);
    this.offered.push(window?.offered ?? null);
    this.sent.push(window?.sent ?? null);
    this.guaranteedRate.push(guarantee.rate);
    this.p50.push(window?.delay.p50_ns ?? null);
    this.p99.push(window?.delay.p99_ns ?? null);
    this.max.push(window?.delay.max_ns ?? null);
    this.guaranteedDelay.push(guarantee.delay_ns);
    this.backlog.push(flow.backlog);
    for (const [why, total] of Object.entries(flow.total.dropped)) {
      const column = this.dropped.get(why) ?? Array<number | null>(this.at.length - 1).fill(null);
      column.push(this.last === null ? null : total - (this.last.total.dropped[why] ?? 0));
      this.dropped.set(why, column);
    }
    this.broken.push(this.last === null ? null : broken(flow) - broken(this.last));
    this.heldBack = this.wasHeldBack === null ? null : adapter.held_back - this.wasHeldBack;
    this.wasHeldBack = adapter.held_back;
    this.last = flow;
    if (this.at.length > KEPT) this.columns().forEach((column) => column.shift());
  }

  private columns(): unknown[][] {
    const { at, offered, sent, guaranteedRate, p50, p99, max, guaranteedDelay, backlog, broken } = this;
    return [at, offered, sent, guaranteedRate, p50, p99, max, guaranteedDelay, backlog, broken, ...this.dropped.values()];
  }
}

/** Number of guarantee violations since the flow began. */
function broken({ breaches }: Flow): number {
  return breaches.guarantee + breaches.rate;
}

/** A flow of an adapter in one direction. */
export interface Lane {
  key: string;
  way: Way;
  adapter: Adapter;
  flow: Flow;
}

/** All flows of all adapters in one direction. */
export function lanes(sample: Sample, way: Way): Lane[] {
  return sample.adapters.flatMap((adapter) =>
    adapter[way].map((flow) => ({ key: `${way} ${adapter.name} ${flow.flow}`, way, adapter, flow: whole(flow, adapter, way) })),
  );
}

/** The flow, with one more reason for drops: the adapter's packets that were dropped for lack of memory. They were dropped before they were assigned to a flow, so all flows of an adapter get the same number. */
function whole(flow: Flow, adapter: Adapter, way: Way): Flow {
  const dropped = { ...flow.total.dropped, no_memory: adapter.no_memory[way] };
  return { ...flow, total: { ...flow.total, dropped } };
}

/** Measurements of all flows over the last minutes, with the last sample. */
export class History {
  private tracks = new Map<string, Track>();
  sample: Sample | null = null;
  /** Start of the service by the clock of its machine, in seconds since 1970. All views compute times of day from it, so an event has the same time in all of them. */
  began = 0;

  /** Adds a sample that arrived at `now`, in seconds since 1970. If the sample does not contain the start of the service, the start is computed from `now`. */
  push(sample: Sample, now: number): void {
    if (sample.at_ns === this.sample?.at_ns) return;
    // This is the first sample, or the first of another service at the same address.
    if (this.sample === null || sample.at_ns < this.sample.at_ns) {
      this.tracks.clear();
      this.began = now - sample.at_ns / 1e9;
    }
    if (sample.began_unix_ns > 0) this.began = sample.began_unix_ns / 1e9;
    this.sample = sample;
    const there = new Set<string>();
    for (const way of ["up", "down"] as const) {
      for (const { key, flow, adapter } of lanes(sample, way)) {
        there.add(key);
        const track = this.tracks.get(key) ?? new Track();
        this.tracks.set(key, track);
        track.push(this.began + sample.at_ns / 1e9, flow, adapter);
      }
    }
    for (const key of this.tracks.keys()) if (!there.has(key)) this.tracks.delete(key);
  }

  track(key: string): Track | undefined {
    return this.tracks.get(key);
  }
}

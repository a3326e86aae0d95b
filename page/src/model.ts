// Types of the API's answers. Times are in nanoseconds, rates in bits per second.

export interface Service {
  release: string;
  pid: number;
  file: string;
}

export interface Sample {
  at_ns: number;
  /** Start of the service, since 1970; 0 before its first measurement. */
  began_unix_ns: number;
  adapters: Adapter[];
  losses: Record<string, number>;
}

export interface Adapter {
  name: string;
  port: string;
  link: string;
  up: Flow[];
  down: Flow[];
  foreign: number;
  malformed: number;
  not_taken: number;
  /** Number of packets that were dropped on arrival for lack of memory. */
  no_memory: { up: number; down: number };
  paused: boolean;
  spent_ns: number;
  processor: number | null;
  /** Number of times that it used up its turn on the link's thread while it and another adapter had more packets. */
  held_back: number;
  /** True if its interface is gone for good. */
  gone: boolean;
}

export interface Flow {
  flow: string;
  guarantee: Guaranteed;
  window: Window | null;
  total: Total;
  backlog: number;
  backlog_bytes: number;
  breaches: Breaches;
}

export interface Guaranteed {
  rate: number | null;
  delay_ns: number | null;
  formula: string | null;
  envelope: { rate: number; burst_bytes: number }[];
  required_rate: number | null;
  required_delay_ns: number | null;
  none: string | null;
  /** True if the service checks the guaranteed rate, or delay, against the traffic. */
  judges_rate: boolean;
  judges_delay: boolean;
}

/** The last hour of a flow. */
export interface FlowHistory {
  flow: string;
  up: HistoryStep[];
  down: HistoryStep[];
}

/** Ten seconds of a flow: mean rates, and the largest value of each other field. */
export interface HistoryStep {
  end_ns: number;
  offered: number;
  sent: number;
  p50_ns: number | null;
  p99_ns: number | null;
  max_ns: number | null;
  rate: number | null;
  delay_ns: number | null;
  backlog: number;
  broken: number;
  dropped: Record<string, number>;
}

export interface Window {
  over_ns: number;
  offered: number;
  sent: number;
  demanded: boolean;
  dropped: number;
  delay: Quantiles;
}

export interface Quantiles {
  packets: number;
  p50_ns: number | null;
  p99_ns: number | null;
  max_ns: number | null;
}

export interface Total {
  offered: number;
  sent: number;
  dropped: Record<string, number>;
  delay: Quantiles;
  beyond: number;
}

export interface Breaches {
  own_burst: number;
  host: number;
  guarantee: number;
  rate: number;
}

/** A guarantee violation: the delay of a packet, or the rate of a window. */
export type Breach = TooLong | TooSlow;

export interface TooSlow {
  kind: "rate";
  flow: string;
  begin_ns: number;
  end_ns: number;
  sent: number;
  guaranteed: number;
}

export interface TooLong {
  kind: "delay";
  number: number;
  flow: string;
  cause: string;
  bound_ns: number;
  arrival_ns: number;
  end_ns: number;
  handed_over_ns: number | null;
}

/** Delays of a flow since its start: pairs of a delay and the number of packets with it. */
export interface Delays {
  flow: string;
  up: [number, number][];
  down: [number, number][];
}

/** Turns of the link's occupancy, the newest last. */
export interface Turns {
  way: Way;
  turns: Turn[];
}

export interface Turn {
  flow: string;
  begin_ns: number;
  end_ns: number;
  packets: number;
}

export interface Remark {
  severity: string;
  title: string;
  help: string[];
}

export interface Made {
  changed: string[];
  at_ns: number | null;
  dropped: number;
  remarks: Remark[];
}

export interface Problem {
  what: string;
  remarks: Remark[];
}

export type Way = "up" | "down";

/** The disciplines that a link may have, with the keys of its flows that the page can edit. */
export interface Disciplines {
  /** Discipline of a link whose scenario names none. */
  default: string;
  disciplines: { kind: string; keys: EditableKey[] }[];
}

export interface EditableKey {
  key: string;
  label: string;
  /** The default value, in words; null: the key is required. */
  default: string | null;
  /** True if the value is a whole number. */
  number: boolean;
  /** True if the key is the flow's weight. */
  weight: boolean;
}

/** The parts of a scenario that the page reads. */
export interface Scenario {
  link: Record<string, Link>;
}

export interface Link {
  rate?: string;
  uplink?: string;
  scheduler?: Scheduler;
  flow?: Record<string, FlowKeys>;
}

export interface Scheduler {
  kind: string;
  [key: string]: unknown;
}

export interface FlowKeys {
  adapter?: string;
  scheduler?: Scheduler;
  flow?: Record<string, FlowKeys>;
  [key: string]: unknown;
}

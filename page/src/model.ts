// What the API says. Times are nanoseconds, rates bits per second.

export interface Service {
  release: string;
  pid: number;
  file: string;
}

export interface Sample {
  at_ns: number;
  /** When the service began, since 1970; 0 before its first look. */
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
  /** Packets for which there was no memory when they came. */
  no_memory: { up: number; down: number };
  paused: boolean;
  spent_ns: number;
  processor: number | null;
  /** How often its turn on the link's thread was used up while it, and another one, had more. */
  held_back: number;
  /** Its interface is gone for good. */
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
  /** Whether they are held against each packet. */
  judges_rate: boolean;
  judges_delay: boolean;
}

/** The last hour of a flow. */
export interface FlowHistory {
  flow: string;
  up: HistoryStep[];
  down: HistoryStep[];
}

/** Ten seconds of a flow: mean rates, and the largest of all else. */
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

/** What was not as guaranteed: of a packet's delay, or of a window's rate. */
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

/** Delays of a flow since it began: each, and how many packets stayed as long. */
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

/** The disciplines that a link may have, with the keys of a flow that are meant to be edited. */
export interface Disciplines {
  /** The one of a link that names none. */
  default: string;
  disciplines: { kind: string; keys: EditableKey[] }[];
}

export interface EditableKey {
  key: string;
  label: string;
  /** The value where the key is missing, in words; null: it is required. */
  default: string | null;
  /** A whole number. */
  number: boolean;
  /** The flow's weight. */
  weight: boolean;
}

/** A scenario, as far as the page looks into it. */
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

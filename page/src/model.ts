// Types of the API's answers. Times are in nanoseconds, rates in bits per second.

/** The service: its version, its process number, and the path of its scenario file. */
export interface Service {
  release: string;
  pid: number;
  file: string;
}

/** Measurements of all adapters; there is one sample a second. */
export interface Sample {
  /** Time of the sample since the start of the service. */
  at_ns: number;
  /** Start of the service, in nanoseconds since 1970; 0 before its first measurement. */
  began_unix_ns: number;
  adapters: Adapter[];
  /** Number of packets lost outside of the queues, by reason. */
  losses: Record<string, number>;
}

/** A virtual adapter. A unit is the result of one read at its port: a frame, or a frame for several packets (segmentation offload). */
export interface Adapter {
  name: string;
  /** The adapter's port, as written in the scenario. */
  port: string;
  link: string;
  /** The flows of packets that the adapter sends. */
  up: Flow[];
  /** The flows of packets that it receives. */
  down: Flow[];
  /** Number of units discarded because their source address belongs to another adapter. */
  foreign: number;
  /** Number of units that were not valid frames. */
  malformed: number;
  /** Number of units that the adapter's port did not accept. */
  not_taken: number;
  /** Number of packets that were dropped on arrival for lack of memory: sent by the adapter (up), and sent to it (down). */
  no_memory: { up: number; down: number };
  paused: boolean;
  /** Time that the link's thread spent on the adapter's packets. */
  spent_ns: number;
  /** Time that the link's thread spent on the adapter's packets in the last second, as a fraction of one processor. */
  processor: number | null;
  /** Number of times that the adapter used up its processor time in the link's thread while this adapter and another one had more packets. */
  held_back: number;
  /** True if the adapter's interface is gone for good. */
  gone: boolean;
}

/** A flow of an adapter in one direction. */
export interface Flow {
  flow: string;
  guarantee: Guaranteed;
  /** Measurements of the last second; null in the first sample. */
  window: Window | null;
  /** Measurements since the flow began. */
  total: Total;
  /** Number of queued packets. */
  backlog: number;
  backlog_bytes: number;
  breaches: Breaches;
}

/** The guarantee of a flow; a null value is not guaranteed, or not required. */
export interface Guaranteed {
  rate: number | null;
  delay_ns: number | null;
  /** The formula of the delay bound. */
  formula: string | null;
  /** The token buckets to which the flow has to conform for the delay bound to hold. */
  envelope: { rate: number; burst_bytes: number }[];
  required_rate: number | null;
  required_delay_ns: number | null;
  /** The reason why there is no guarantee. */
  none: string | null;
  /** True if the service checks the guaranteed rate against the traffic. */
  judges_rate: boolean;
  /** True if the service checks the guaranteed delay against the traffic. */
  judges_delay: boolean;
}

/** The last hour of a flow. */
export interface FlowHistory {
  flow: string;
  up: HistoryStep[];
  down: HistoryStep[];
}

/** Ten seconds of a flow: mean rates, the largest delays and backlog, and the numbers of violations and drops. `rate` and `delay_ns` are the guarantee. */
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

/** Measurements of a flow over about a second: rates of the packets that arrived and left, delays, drops. */
export interface Window {
  /** Length of the window. */
  over_ns: number;
  offered: number;
  sent: number;
  /** True if packets were queued all the time, so that `sent` can be compared with the guaranteed rate. */
  demanded: boolean;
  dropped: number;
  delay: Quantiles;
}

/** Delays of packets, to three digits; null without packets. */
export interface Quantiles {
  packets: number;
  p50_ns: number | null;
  p99_ns: number | null;
  max_ns: number | null;
}

/** Numbers of packets of a flow since it began, and their delays. */
export interface Total {
  offered: number;
  sent: number;
  /** Number of dropped packets, by reason. */
  dropped: Record<string, number>;
  delay: Quantiles;
  /** Packets in excess of the flow's envelope. */
  beyond: number;
}

/** Numbers of packets with a delay above the guaranteed one, by cause; and of intervals below the guaranteed rate. */
export interface Breaches {
  /** Packets late because the flow had sent more than its envelope allows. */
  own_burst: number;
  /** Packets late because of the host: delivered late although scheduled in time, or read late. */
  host: number;
  /** Packets late although the flow conformed: the guarantee was violated. */
  guarantee: number;
  /** Intervals with less service than the guaranteed rate. */
  rate: number;
}

/** A guarantee violation: too long a delay of a packet, or too low a rate over an interval. */
export type Breach = TooLong | TooSlow;

/** An interval in which a flow had packets and got less than its guaranteed rate. */
export interface TooSlow {
  kind: "rate";
  flow: string;
  begin_ns: number;
  end_ns: number;
  /** The rate at which packets left. */
  sent: number;
  /** The guaranteed rate. */
  guaranteed: number;
}

/** A packet with a delay above the guaranteed one. Its times count from the start of the service. */
export interface TooLong {
  kind: "delay";
  number: number;
  flow: string;
  /** `own-burst`, `host` or `guarantee`. */
  cause: string;
  bound_ns: number;
  /** Arrival of the last bit. */
  arrival_ns: number;
  /** End of the transmission. */
  end_ns: number;
  /** Time at which the host delivered the packet, if it delivered it late; else null. */
  handed_over_ns: number | null;
}

/** Delays of a flow since its start: pairs of a delay and the number of packets with it. */
export interface Delays {
  flow: string;
  up: [number, number][];
  down: [number, number][];
}

/** Link occupancy in one direction: the last turns, the newest at the end. In a turn one flow sends packets back to back. */
export interface Turns {
  way: Way;
  turns: Turn[];
}

/** Consecutive packets of one flow, and the time for which they held the link. */
export interface Turn {
  flow: string;
  begin_ns: number;
  end_ns: number;
  packets: number;
}

/** An error or a warning about the scenario, with cures. */
export interface Remark {
  severity: string;
  title: string;
  help: string[];
}

/** A change that was made, or could be made: the changed directions, the time of the change, and the number of queued packets that it dropped. */
export interface Made {
  changed: string[];
  at_ns: number | null;
  dropped: number;
  remarks: Remark[];
}

/** The reason why a request was refused. */
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

/** A key of a flow that the page can edit. */
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

/** The keys of a link that the page reads. */
export interface Link {
  rate?: string;
  uplink?: string;
  scheduler?: Scheduler;
  flow?: Record<string, FlowKeys>;
}

/** The discipline of a link or of a divided flow, with its keys. */
export interface Scheduler {
  kind: string;
  [key: string]: unknown;
}

/** The keys of a flow, and its parts if it is divided. */
export interface FlowKeys {
  adapter?: string;
  scheduler?: Scheduler;
  flow?: Record<string, FlowKeys>;
  [key: string]: unknown;
}

// Which keys of an adapter's flow there are to change, and what they are now.

import type { FlowKeys, Link, Scenario } from "./model";

export interface Knob {
  key: string;
  label: string;
  /** As it is written; empty where the key is not there. */
  value: string;
  /** What is meant where it is not there. */
  absent: string;
  /** A whole number, for a slider. */
  number: boolean;
}

type Kind = [key: string, label: string, absent: string];

const WEIGHT: Kind = ["weight", "Weight", "1"];
const RATE: Kind = ["rate", "Rate", "required"];
const BURST: Kind = ["burst", "Burst", "1ms of the rate"];

/** Keys that a discipline has for its flows; what all flows have comes after them. */
const OF: Record<string, Kind[]> = {
  mclock: [WEIGHT, ["reservation", "Minimum rate", "none"], ["limit", "Cap", "none"]],
  hfsc: [RATE, ["share", "Share", "the rate"], ["limit", "Cap", "none"]],
  htb: [RATE, ["ceil", "Cap", "the link's rate"]],
  "xen-wrr": [WEIGHT, ["min-rate", "Minimum rate", "none"]],
  netback: [["credit", "Cap: bytes in a period", "none"]],
  "virtual-links": [["phase", "Phase", "required"], ["kind", "Kind", "required"]],
  tas: [["opens", "Gate opens at", "0s"], ["open", "Gate open for", "the rest"], ["every", "Gate opens every", "cycle"]],
  mgfq: [["deadline", "Deadline", "required"]],
  edf: [["deadline", "Deadline", "required"]],
  shaper: [RATE, BURST],
  ats: [RATE, BURST],
  cbs: [["idle-slope", "Rate of the class", "not shaped"]],
  priority: [["priority", "Priority", "required"]],
  rcsp: [["priority", "Priority", "required"]],
};
for (const kind of ["virtual-clock", "sced", "arc", "corr"]) OF[kind] = [RATE];
for (const kind of ["drr", "drr+", "drr++", "ets"]) OF[kind] = [["quantum", "Quantum", "a largest packet"]];
for (const kind of ["wrr", "scfq", "sfq", "wfq", "wf2q", "spfq", "mtr-ls", "qfq", "qfq+", "wf2q+", "ffs", "timer-wheels"]) {
  OF[kind] = [WEIGHT];
}

const ALL: Kind[] = [
  ["need.rate", "Rate asked for", "none"],
  ["need.delay", "Delay asked for", "none"],
  ["envelope.rate", "Envelope: rate", "unknown"],
  ["envelope.burst", "Envelope: burst", "unknown"],
  ["queue", "Queue", "20p"],
];

/** The table of a flow, and the discipline that it stands under. */
function find(link: Link, name: string): [FlowKeys, string] | null {
  let [at, kind]: [Link | FlowKeys, string] = [link, link.scheduler?.kind ?? "fifo"];
  for (const [n, part] of name.split("/").entries()) {
    if (n > 0) kind = at.scheduler?.kind ?? "fifo";
    const below: FlowKeys | undefined = at.flow?.[part];
    if (below === undefined) return null;
    at = below;
  }
  return [at as FlowKeys, kind];
}

function written(keys: FlowKeys, key: string): string {
  let value: unknown = keys;
  for (const word of key.split(".")) value = (value as Record<string, unknown> | undefined)?.[word];
  if (value == null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** What there is to change of a flow; nothing where the scenario has it not. */
export function knobs(scenario: Scenario, link: string, name: string): Knob[] {
  const table = scenario.link[link];
  const found = table && find(table, name);
  if (!found) return [];
  const [keys, kind] = found;
  // An envelope of several buckets is changed in the file.
  const several = Array.isArray(keys.envelope);
  const general = ALL.filter(([key]) => !(several && key.startsWith("envelope.")));
  return [...(OF[kind] ?? []), ...general].map(([key, label, absent]) => ({
    key,
    label,
    value: written(keys, key),
    absent,
    number: key === "weight" || key === "priority",
  }));
}

/** What has to be sent for these to be the values: those that changed; null where a key goes. */
export function changes(before: Knob[], now: Map<string, string>): Record<string, unknown> {
  const sent: Record<string, unknown> = {};
  for (const { key, value, number } of before) {
    const text = (now.get(key) ?? value).trim();
    if (text !== value) sent[key] = text === "" ? null : number && /^\d+$/.test(text) ? Number(text) : text;
  }
  return sent;
}

/** The slider's end: room for four times as much. */
export function most(weight: number): number {
  return Math.min(65536, Math.max(16, 2 ** Math.ceil(Math.log2(Math.max(1, weight) * 4))));
}

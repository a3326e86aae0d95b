// Verdict on the guarantee of a flow, in words and a sign, so that it can be read without colours.

import type { Adapter, Flow } from "./model";

/** Kinds of verdicts. `own` and `host`: packets exceeded the delay bound because of the sender (`own`) or of the host. */
export type Level = "none" | "unjudged" | "gone" | "paused" | "kept" | "own" | "host" | "broken";

export interface Verdict {
  level: Level;
  sign: string;
  word: string;
  /** The reason, in a sentence. */
  why: string;
}

const GONE = "its interface is gone for good: remove the adapter and add it again";

const UNJUDGED = "the counters do not show whether the guarantee is kept, because the link loses packets or adds bytes to them, or because a mask makes many flows of this one";

/** The verdict on a flow's guarantee: the worst that applies. */
export function verdict({ guarantee, breaches }: Flow, { paused, gone }: Pick<Adapter, "paused" | "gone">): Verdict {
  const broken = breaches.guarantee + breaches.rate;
  const times = (n: number) => (n === 1 ? "once" : `${n.toLocaleString("en-US")} times`);
  if (broken > 0) {
    const late = breaches.guarantee > 0 ? [`packets stayed longer than guaranteed, ${times(breaches.guarantee)}`] : [];
    const slow = breaches.rate > 0 ? [`less than the guaranteed rate was sent, ${times(breaches.rate)}`] : [];
    const now = gone ? [GONE] : [];
    return { level: "broken", sign: "✖", word: `${gone ? "gone, " : ""}BROKEN ×${broken}`, why: [...now, ...late, ...slow].join("; ") };
  }
  if (gone) return { level: "gone", sign: "∅", word: "gone", why: GONE };
  if (paused) return { level: "paused", sign: "‖", word: "paused", why: "no packets are read from it or sent to it" };
  if (breaches.host > 0) {
    const why = `packets delivered late by this host, ${times(breaches.host)}; they were scheduled in time`;
    return { level: "host", sign: "◐", word: `late by host ×${breaches.host}`, why };
  }
  if (breaches.own_burst > 0) {
    const why = `packets stayed longer, ${times(breaches.own_burst)}, when it had sent more than its envelope allows`;
    return { level: "own", sign: "◇", word: `own burst ×${breaches.own_burst}`, why };
  }
  if (guarantee.rate === null && guarantee.delay_ns === null) {
    return { level: "none", sign: "–", word: "no guarantee", why: guarantee.none ?? "nothing is guaranteed" };
  }
  const [rate, delay] = [guarantee.rate !== null, guarantee.delay_ns !== null];
  const [keptRate, keptDelay] = [rate && guarantee.judges_rate, delay && guarantee.judges_delay];
  if (!keptRate && !keptDelay) return { level: "unjudged", sign: "?", word: "not checked", why: UNJUDGED };
  if (keptRate === rate && keptDelay === delay) return { level: "kept", sign: "✓", word: "kept", why: "every packet and every second so far" };
  const [kept, other] = keptDelay ? ["delay", "rate"] : ["rate", "delay"];
  return { level: "kept", sign: "✓", word: `${kept} kept`, why: `every packet so far; its ${other} is not checked: ${UNJUDGED}` };
}

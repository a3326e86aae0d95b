import { expect, test } from "vitest";
import type { Disciplines, Scenario } from "./model";
import { changes, knobs, most } from "./settings";

const key = (name: string, label: string, absent: string | null, number = false) => ({ key: name, label, default: absent, number, weight: name === "weight" });
const DISCIPLINES: Disciplines = {
  default: "fifo",
  disciplines: [
    { kind: "fifo", keys: [] },
    { kind: "drr", keys: [key("quantum", "Quantum", "one largest packet")] },
    {
      kind: "mclock",
      keys: [key("weight", "Weight", "1", true), key("reservation", "Minimum rate", "none: by weight only"), key("limit", "Cap", "none")],
    },
  ],
};

const SCENARIO: Scenario = {
  link: {
    uplink: {
      rate: "20mbit",
      scheduler: { kind: "mclock" },
      flow: {
        calm: { adapter: "namespace", weight: 2, limit: "5mbit", requires: { rate: "1mbit" } },
        tenant: { scheduler: { kind: "drr" }, flow: { web: { adapter: "tap:web", envelope: [{ rate: "1mbit", burst: "3kB" }] } } },
      },
    },
  },
};

test("the keys of a flow are those of its discipline, with their values", () => {
  const calm = knobs(DISCIPLINES, SCENARIO, "uplink", "calm");
  expect(calm.map(({ key, value }) => `${key}=${value}`)).toEqual([
    "weight=2", "reservation=", "limit=5mbit", "requires.rate=1mbit", "requires.delay=", "envelope.rate=", "envelope.burst=", "queue=",
  ]);
  expect(knobs(DISCIPLINES, SCENARIO, "uplink", "tenant/web").map(({ key }) => key)).toEqual(["quantum", "requires.rate", "requires.delay", "queue"]);
  expect(knobs(DISCIPLINES, SCENARIO, "uplink", "nobody")).toEqual([]);
});

test("only changed values are sent; emptied ones are removed", () => {
  const calm = knobs(DISCIPLINES, SCENARIO, "uplink", "calm");
  const now = (values: Record<string, string>) => changes(calm, new Map(Object.entries(values)));
  expect(now({ weight: "2", limit: " 5mbit " })).toEqual({});
  expect(now({ weight: "3", limit: "", "requires.delay": "4ms" })).toEqual({ weight: 3, limit: null, "requires.delay": "4ms" });
  // A text that is not a number is sent unchanged, and the service reports the error.
  expect(now({ weight: "heavy" })).toEqual({ weight: "heavy" });
});

test("a slider has room", () => {
  expect([1, 4, 5, 1000, 65536].map(most)).toEqual([16, 16, 32, 4096, 65536]);
});

import { expect, test } from "vitest";
import { entries, stay } from "./breaches";
import type { Breach, TooLong } from "./model";

function late(arrival_ns: number, end_ns: number, more: Partial<TooLong> = {}): TooLong {
  return { kind: "delay", number: 1, flow: "a", cause: "host", bound_ns: 5, arrival_ns, end_ns, handed_over_ns: null, ...more };
}

test("packets of one second and reason are one entry, the longest stands for them", () => {
  const slow: Breach = { kind: "rate", flow: "a", begin_ns: 0, end_ns: 1, sent: 1, promised: 2 };
  const all = [late(10, 20), late(30, 90), late(40, 60), late(50, 60, { cause: "own-burst" }), late(2e9, 2e9 + 10), slow, slow];
  const list = entries(all);
  expect(list.map(({ packets }) => packets)).toEqual([3, 1, 1, 1, 1]);
  expect(stay(list[0]!.breach as TooLong)).toBe(60);
  expect(stay(late(10, 20, { handed_over_ns: 40 }))).toBe(30);
  expect(entries([])).toEqual([]);
});

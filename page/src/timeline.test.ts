import { expect, test } from "vitest";
import type { Link, Turn } from "./model";
import { cycle, timeline } from "./timeline";

const GATES: Link = {
  scheduler: { kind: "tas", cycle: "10us" },
  flow: { one: { opens: "0us", open: "4us" }, two: { opens: "4us" } },
};
const PHASES: Link = {
  scheduler: { kind: "virtual-links" },
  flow: { one: { kind: "A", phase: "14us" }, two: { kind: "B", phase: "6us" } },
};

function turns(...all: [string, number, number][]): Turn[] {
  return all.map(([flow, begin_ns, end_ns]) => ({ flow, begin_ns, end_ns, packets: 1 }));
}

test("a cycle is that of the gates, or all phases together", () => {
  expect([cycle(GATES), cycle(PHASES), cycle({ scheduler: { kind: "wf2q+" } })]).toEqual([10_000, 20_000, null]);
});

test("gates are shown beside the flows that held the link", () => {
  const all: [string, number, number][] = [];
  for (let at = 0; at < 100_000; at += 10_000) all.push(["one", at, at + 4_000], ["two", at + 5_000, at + 10_000]);
  const { begin, length, rows } = timeline(GATES, turns(...all));
  expect([begin, length]).toEqual([60_000, 40_000]);
  const [one, two] = rows;
  expect(one!.held).toEqual([[0, 4_000], [10_000, 4_000], [20_000, 4_000], [30_000, 4_000]]);
  expect(one!.open).toEqual(one!.held);
  // Without a key for its length, the opening lasts until the end of the cycle.
  expect(two!.open).toEqual([[4_000, 6_000], [14_000, 6_000], [24_000, 6_000], [34_000, 6_000]]);
  expect([one!.share, two!.share]).toEqual([0.4, 0.5]);
});

test("a gate may open several times in a cycle", () => {
  const often: Link = { scheduler: { kind: "tas", cycle: "10us" }, flow: { one: { opens: "1us", open: "2us", every: "5us" } } };
  const { rows } = timeline(often, turns(["one", 0, 1_000], ["one", 6_000, 10_000]));
  expect(rows[0]!.open).toEqual([[1_000, 2_000], [6_000, 2_000]]);
});

test("packets are cut at the edges of the picture, and a silent flow has a row all the same", () => {
  const { begin, length, rows } = timeline(PHASES, turns(["one", 0, 50_000], ["one", 90_000, 100_000]));
  expect([begin, length]).toEqual([20_000, 80_000]);
  expect(rows.map(({ flow, held }) => [flow, held])).toEqual([["one", [[0, 30_000], [70_000, 10_000]]], ["two", []]]);
});

test("nothing was sent", () => {
  expect(timeline(PHASES, []).rows.every(({ held }) => held.length === 0)).toBe(true);
});

import { expect, test } from "vitest";
import { History, KEPT, Track, hour, lanes, largest, stacked } from "./history";
import type { Flow, Sample } from "./model";

function flow(sent: number, dropped: number, broken = 0): Flow {
  const delay = { packets: 1, p50_ns: 1, p99_ns: 2, max_ns: 3 };
  return {
    flow: "calm",
    guarantee: { rate: 10, delay_ns: 5, formula: null, envelope: [], required_rate: null, required_delay_ns: null, none: null, judges_rate: true, judges_delay: true },
    window: { over_ns: 1e9, offered: sent + 1, sent, demanded: false, dropped: 0, delay },
    total: { offered: 0, sent: 0, dropped: { queue_full: dropped }, delay, beyond: 0 },
    backlog: 4,
    backlog_bytes: 400,
    breaches: { own_burst: 9, host: 9, guarantee: broken, rate: 0 },
  };
}

function sample(second: number, up: Flow, began = 0): Sample {
  const adapter = { name: "calm", port: "namespace", link: "a", up: [up], down: [flow(0, 0)], foreign: 0, malformed: 0, not_taken: 0, no_memory: { up: 3 * second, down: 0 }, paused: false, spent_ns: 0, processor: null, held_back: second * second, gone: false };
  return { at_ns: second * 1e9, began_unix_ns: began * 1e9, adapters: [adapter], losses: {} };
}

test("totals become values of each second", () => {
  const history = new History();
  history.push(sample(1, flow(7, 5)), 101);
  history.push(sample(2, flow(8, 25, 2)), 102);
  // The same sample, requested again in between.
  history.push(sample(2, flow(8, 25, 2)), 102.5);
  history.push(sample(3, flow(9, 25, 2)), 103);
  const track = history.track("up calm calm")!;
  expect([track.at, track.sent, track.offered, track.guaranteedRate]).toEqual([[101, 102, 103], [7, 8, 9], [8, 9, 10], [10, 10, 10]]);
  expect(track.dropped.get("queue_full")).toEqual([null, 20, 0]);
  expect(track.dropped.get("no_memory")).toEqual([null, 3, 3]);
  expect(history.track("down calm calm")!.dropped.get("no_memory")).toEqual([null, 0, 0]);
  expect(track.broken).toEqual([null, 2, 0]);
  expect(track.heldBack).toBe(5);
  expect(history.began).toBe(100);
});

test("the last samples are kept, equally many in each column", () => {
  const history = new History();
  for (let second = 0; second < KEPT + 40; second++) history.push(sample(second, flow(second, 0)), second);
  const track = history.track("up calm calm")!;
  expect([track.at[0], track.sent[0], track.at.length]).toEqual([40, 40, KEPT]);
  expect([track.guaranteedDelay, track.max, track.broken, track.dropped.get("queue_full")!].map((column) => column.length)).toEqual(Array(4).fill(KEPT));
});

test("an event has the same time of day in every view, however late its sample came", () => {
  const looks = [0, 0.4, 0.9, 30].map((late) => {
    const history = new History();
    history.push(sample(3, flow(1, 0), 1000), 1003 + late);
    history.push(sample(4, flow(1, 0), 1000), 1004);
    return [history.began, ...history.track("up calm calm")!.at];
  });
  expect(looks).toEqual(Array(4).fill([1000, 1003, 1004]));
});

test("a restarted service clears the history, and a removed adapter is forgotten", () => {
  const history = new History();
  history.push(sample(50, flow(1, 0)), 150);
  history.push(sample(1, flow(2, 0)), 160);
  expect(history.track("up calm calm")!.sent).toEqual([2]);
  history.push({ at_ns: 2e9, began_unix_ns: 0, adapters: [], losses: {} }, 161);
  expect(history.track("up calm calm")).toBeUndefined();
});

test("parts of a sum are stacked, where there are any", () => {
  expect(stacked([[null, 1, 2], [null, 10, 0], [null, null, 7]])).toEqual([[null, 11, 9], [null, 10, 7], [null, null, 7]]);
});

test("a lane for each flow of the direction", () => {
  expect(lanes(sample(1, flow(1, 0)), "down").map((lane) => lane.key)).toEqual(["down calm calm"]);
});

test("`hour` returns the last hour in the same columns as a track", () => {
  const step = { end_ns: 10e9, offered: 2, sent: 1, p50_ns: null, p99_ns: 5, max_ns: 9, rate: 1, delay_ns: null, backlog: 3, broken: 0, dropped: { queue_full: 4 } };
  const series = hour([step, { ...step, end_ns: 20e9, dropped: {} }], 1000);
  expect(series.at).toEqual([1010, 1020]);
  expect(series.dropped.get("queue_full")).toEqual([4, 0]);
  expect([series.p50, series.max, series.guaranteedDelay]).toEqual([[null, null], [9, 9], [null, null]]);
});

test("each adapter that sends the most has its own band, and all others share one", () => {
  const tracks = [3, 1, 9, 5].map((sent, n): [string, Track] => {
    const track = new Track();
    track.at = [1, 2];
    track.sent = n === 1 ? [sent] : [sent, null];
    if (n === 1) track.at = [2];
    return [`a${n}`, track];
  });
  expect(largest(tracks, 2)).toEqual([["a2", [9, null]], ["a3", [5, null]], ["2 others", [3, 1]]]);
  expect(largest(tracks.slice(0, 1), 2)).toEqual([["a0", [3, null]]]);
});

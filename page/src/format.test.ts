import { expect, test } from "vitest";
import { count, percent, rate, readRate, readTime, time, words } from "./format";

test("numbers have three digits and a unit", () => {
  expect([0, 999, 9_999_999, 12_345_678, 1e9, 100e9].map(rate)).toEqual(["0 bit/s", "999 bit/s", "10.0 Mbit/s", "12.3 Mbit/s", "1.00 Gbit/s", "100 Gbit/s"]);
  expect([0, 950, 4_220_000, 51_500_000, 1e9, 3600e9].map(time)).toEqual(["0 ns", "950 ns", "4.22 ms", "51.5 ms", "1.00 s", "3600 s"]);
  expect([rate(null), time(undefined), count(null), percent(null)]).toEqual(["—", "—", "—", "—"]);
  expect([percent(0.0123), percent(0.5), count(12345)]).toEqual(["1.2 %", "50 %", "12,345"]);
  expect(words("own-burst queue_full")).toBe("own burst queue full");
});

test("values are read as scenarios write them", () => {
  expect(["20mbit", "1.5 gbit", "800kbit", "7bit", "unlimited", undefined].map(readRate)).toEqual([20e6, 1.5e9, 8e5, 7, null, null]);
  expect(["14us", "10ms", "1s", "250ns", "10", 10, null].map(readTime)).toEqual([14e3, 10e6, 1e9, 250, null, null, null]);
});

import { expect, test } from "vitest";
import type { Flow } from "./model";
import { verdict } from "./verdict";

function judged(breaches: Partial<Flow["breaches"]>, rate: number | null = 1, paused = false, gone = false) {
  const guarantee = { rate, delay_ns: null, none: "its queue takes all", judges_rate: true, judges_delay: true };
  return verdict({ guarantee, breaches: { own_burst: 0, host: 0, guarantee: 0, rate: 0, ...breaches } } as Flow, { paused, gone });
}

test("the worst verdict is shown, with a sign and a word of its own", () => {
  const all = [judged({}, null), judged({}), judged({ own_burst: 1 }), judged({ own_burst: 1, host: 2 }), judged({ host: 2, guarantee: 3, rate: 1 })];
  expect(all.map(({ level }) => level)).toEqual(["none", "kept", "own", "host", "broken"]);
  expect(new Set(all.map(({ sign }) => sign)).size).toBe(all.length);
  expect(all.at(-1)!.word).toBe("BROKEN ×4");
  expect(all.at(-1)!.why).toBe("packets stayed longer than guaranteed, 3 times; less than the guaranteed rate was sent, once");
  expect(judged({ host: 1 }, 1, true).word).toBe("paused");
  expect(judged({ guarantee: 1 }, 1, true).level).toBe("broken");
  expect(judged({ host: 1 }, 1, true, true)).toMatchObject({ level: "gone", sign: "∅", word: "gone" });
  expect(judged({ guarantee: 1 }, 1, false, true)).toMatchObject({ level: "broken", word: "gone, BROKEN ×1" });
  expect(all[0]!.why).toBe("its queue takes all");
});

test("a guarantee that is not checked is not shown as kept", () => {
  const words = ([[1, 1, true, true], [1, 1, false, true], [1, 1, true, false], [1, 1, false, false], [1, null, false, true], [null, 1, true, false]] as const).map(([rate, delay_ns, judges_rate, judges_delay]) => {
    const guarantee = { rate, delay_ns, none: null, judges_rate, judges_delay };
    return verdict({ guarantee, breaches: { own_burst: 0, host: 0, guarantee: 0, rate: 0 } } as Flow, { paused: false, gone: false }).word;
  });
  expect(words).toEqual(["kept", "delay kept", "rate kept", "not checked", "not checked", "not checked"]);
});

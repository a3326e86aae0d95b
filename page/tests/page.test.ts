// Tests of the dashboard in a browser, with a running service and real packets.

import type { ChildProcess } from "node:child_process";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Breach, FlowHistory, Sample } from "../src/model";
import { accessibilityViolations, launch, picture, watched } from "./browser";
import { Service, TOKEN, possible } from "./service";

const THREE = `
[link.uplink]
rate = "20mbit"
uplink = "namespace"
scheduler = { kind = "wf2q+" }

[link.uplink.flow.calm]
adapter = "namespace"
weight = 2
requires = { rate = "9mbit", delay = "8ms" }
envelope = { rate = "4mbit", burst = "3kB" }
queue = "100p"

[link.uplink.flow.greedy]
adapter = "namespace"
requires = { rate = "3.5mbit" }

[link.uplink.flow.wild]
adapter = "namespace"
`;

const GATES = `
[link.uplink]
rate = "10mbit"
uplink = "namespace"
scheduler = { kind = "tas", cycle = "20ms" }

[link.uplink.flow.early]
adapter = "namespace"
opens = "0ms"
open = "8ms"

[link.uplink.flow.late]
adapter = "namespace"
opens = "8ms"
open = "12ms"
`;

const PHASES = `
[link.uplink]
rate = "10mbit"
uplink = "namespace"
scheduler = { kind = "virtual-links", serve = "phase-wise" }

[link.uplink.flow.early]
adapter = "namespace"
kind = "A"
phase = "8ms"

[link.uplink.flow.late]
adapter = "namespace"
kind = "A"
phase = "12ms"
`;

const TENANTS = `
[link.uplink]
rate = "20mbit"
uplink = "namespace"
scheduler = { kind = "wf2q+" }

[link.uplink.flow.shop]
weight = 3
scheduler = { kind = "mclock" }

[link.uplink.flow.shop.flow.web]
adapter = "namespace"
reservation = "5mbit"
limit = "12mbit"

[link.uplink.flow.shop.flow.database]
adapter = "namespace"

[link.uplink.flow.guest]
adapter = "namespace"
`;

/** Longest time that a step may take on the slowest machine. */
const PATIENCE = 30_000;
const WIDE = { width: 1400, height: 900 };
const NARROW = { width: 390, height: 844 };

describe.skipIf(!possible)("a service with real packets", () => {
  let browser: Browser;
  let service: Service;
  let senders: ChildProcess[] = [];

  beforeAll(async () => {
    [browser, service] = await Promise.all([launch(), Service.start(THREE)]);
    senders = await Promise.all([service.send("calm", 8, 2, 1000), service.send("greedy", 10, 10, 1400), service.send("wild", 10, 25, 1400)]);
  }, 90_000);

  afterAll(async () => {
    senders.forEach((sender) => sender.kill());
    await browser?.close();
    await service?.end();
  });

  async function open(options: BrowserContextOptions = {}): Promise<[Page, string[]]> {
    const context = await browser.newContext({ viewport: WIDE, locale: "en-GB", ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    const wrong = watched(page, service.address);
    await page.goto(`${service.address}#token=${encodeURIComponent(TOKEN)}`);
    await page.getByRole("button", { name: "calm" }).waitFor();
    return [page, wrong];
  }

  test("a page without a token asks for it, and sends it to no other host", async () => {
    const context = await browser.newContext({ viewport: NARROW });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    const wrong = watched(page, service.address);
    await page.goto(service.address);
    await page.getByLabel("Token").fill("not this one, and long");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("not the token").waitFor();
    expect(await accessibilityViolations(page)).toEqual([]);
    await page.getByLabel("Token").fill(TOKEN);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "calm" }).waitFor();
    expect(wrong).toEqual([]);
    expect(service.said()).not.toContain(TOKEN);
    await context.close();
  });

  test("it shows the rate of each adapter beside the guaranteed one", async () => {
    const [page, wrong] = await open();
    expect(page.url()).toBe(service.address);
    const row = page.getByRole("row", { name: /^greedy/ });
    await row.getByText("≥ 5.00 Mbit/s").waitFor();
    // The rate depends on the bandwidth that the other adapters leave.
    await row.getByText(/^[\d.]+ Mbit\/s$/).waitFor();
    await page.getByRole("img", { name: /^Throughput, now: .*sent \d\.\d+ Mbit\/s.*guaranteed 10\.0 Mbit\/s/ }).waitFor();
    await page.getByRole("img", { name: /^Delay, now: .*largest [\d.]+ .s, guaranteed [\d.]+ ms/ }).waitFor();
    await page.getByRole("img", { name: /^Delays of [1-9]\d* packets/ }).waitFor();
    await page.getByRole("img", { name: /^3 adapters on link uplink, to namespace/ }).waitFor();
    await page.getByRole("img", { name: /^Shares of .*greedy \d+ %/ }).waitFor();
    const figure = page.locator("figure").filter({ has: page.getByRole("heading", { name: "Throughput", exact: true }) });
    await figure.getByText("As a table").click();
    await figure.getByRole("rowheader").first().waitFor();
    expect(await figure.getByRole("row").count()).toBeGreaterThan(1);
    // One chart has all adapters, and the service keeps the last hour.
    await page.getByRole("img", { name: /^Throughput of all adapters, now: calm \d.*greedy \d.*wild \d/ }).waitFor();
    const answered = page.waitForResponse((answer) => answer.url().endsWith("/v1/adapters/calm/history"));
    await page.getByRole("radio", { name: "1 hour" }).check();
    const [kept] = (await (await answered).json()) as FlowHistory[];
    expect(kept?.up.some((step) => step.sent > 0 && step.delay_ns !== null)).toBe(true);
    await page.getByRole("radio", { name: "5 minutes" }).check();
    // The line of the guarantee is drawn, in a colour that no other line has.
    const drawn = await figure.locator("canvas").evaluate((canvas: HTMLCanvasElement) => {
      const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
      let dark = 0;
      for (let n = 0; n < data.length; n += 4) if (data[n]! < 40 && data[n + 1]! < 40 && data[n + 2]! < 50 && data[n + 3]! > 200) dark++;
      return dark;
    });
    expect(drawn).toBeGreaterThan(50);
    expect(wrong).toEqual([]);
    await page.context().close();
  });

  test("a change is checked, refused with the service's reason, and made", async () => {
    const [page, wrong] = await open();
    await page.getByRole("button", { name: "wild" }).press("Enter");
    await page.getByRole("heading", { name: "wild sends" }).waitFor();
    const slider = page.getByRole("slider", { name: "Weight" });
    await slider.press("End");
    await page.getByText("not all requirements can be guaranteed").waitFor();
    await page.getByText(/calm needs/).waitFor();
    await page.getByText(/would fit/).first().waitFor();
    await picture(page, "refused");
    // The check changed nothing; a refused change is not made either.
    await page.getByRole("button", { name: "Apply" }).click();
    await page.getByText("not all requirements can be guaranteed").waitFor();
    expect(await service.scenario()).toBe(THREE);
    await page.getByRole("button", { name: "Reset" }).click();
    expect(await slider.inputValue()).toBe("1");
    await page.getByRole("button", { name: "greedy" }).click();
    await page.getByRole("textbox", { name: "Queue" }).fill("60p");
    await page.getByText("✓ queue 60p: that would fit.").waitFor();
    await page.keyboard.press("Enter");
    await page.getByText("✓ queue 60p: done.").waitFor();
    expect(await service.scenario()).toContain('queue = "60p"');
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("row", { name: /^greedy/ }).getByText("‖ paused").waitFor();
    await page.getByRole("button", { name: "Pause", pressed: true }).click();
    await page.getByRole("row", { name: /^greedy/ }).getByText("‖ paused").waitFor({ state: "detached" });
    expect(wrong).toEqual([]);
    await page.context().close();
  });

  test("a violated guarantee is shown in words and signs", async () => {
    const context = await browser.newContext({ viewport: WIDE, locale: "en-GB" });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    const real = await service.ask<Sample>("v1/adapters");
    let n = 0;
    const broken = () => {
      const sample = structuredClone(real);
      sample.at_ns += n * 1e9;
      const flow = sample.adapters[0]!.up[0]!;
      const late = n % 5 === 4;
      flow.breaches.guarantee = Math.floor((n + 1) / 5) * 2;
      flow.window!.delay.max_ns = flow.guarantee.delay_ns! * (late ? 1.4 : 0.5 + 0.1 * (n % 3));
      n++;
      return sample;
    };
    const events = Array.from({ length: 40 }, () => `event: sample\ndata: ${JSON.stringify(broken())}\n\n`).join("");
    const flow = `${real.adapters[0]!.link} up ${real.adapters[0]!.up[0]!.flow}`;
    const breaches: Breach[] = [
      { kind: "rate", flow, begin_ns: 4e9, end_ns: 5e9, sent: 9e6, guaranteed: 10e6 },
      { kind: "delay", number: 1, flow, cause: "guarantee", bound_ns: 5e6, arrival_ns: 4.2e9, end_ns: 4.207e9, handed_over_ns: null },
    ];
    await page.route("**/v1/adapters", (route) => route.fulfill({ json: real }));
    await page.route("**/v1/breaches", (route) => route.fulfill({ json: breaches }));
    await page.route("**/v1/events", (route) => route.fulfill({ contentType: "text/event-stream", body: events }));
    await page.goto(`${service.address}#token=${encodeURIComponent(TOKEN)}`);
    await page.getByRole("row").getByText("stayed 7.00 ms").waitFor();
    await page.getByRole("row").getByText("9.00 Mbit/s while packets waited").waitFor();
    await page.getByRole("alert").getByText("✖ GUARANTEE VIOLATED — calm (sends): packets stayed longer than guaranteed, 16 times").waitFor();
    await page.getByRole("row", { name: /^calm/ }).getByText("✖ BROKEN ×16").waitFor();
    await picture(page, "broken");
    expect(await accessibilityViolations(page)).toEqual([]);
    await context.close();
  });

  test("the keyboard suffices", async () => {
    const [page] = await open();
    const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim() || document.activeElement?.getAttribute("name") || "");
    await page.keyboard.press("Tab");
    expect(await focused()).toBe("To the adapters");
    const seen: string[] = [];
    for (let n = 0; n < 40 && !seen.includes("queue"); n++) {
      await page.keyboard.press("Tab");
      seen.push(await focused());
      if (seen.at(-1) === "greedy") await page.keyboard.press("Space");
    }
    expect(seen).toEqual(expect.arrayContaining(["way", "Hold", "calm", "greedy", "wild", "As a table", "weight", "queue"]));
    await page.getByRole("heading", { name: "greedy sends" }).waitFor();
    await page.getByRole("radio", { name: "they send" }).press("ArrowRight");
    await page.getByRole("heading", { name: "greedy receives" }).waitFor();
    await page.context().close();
  });

  const LOOKS: [string, BrowserContextOptions][] = [
    ["wide-light", { colorScheme: "light" }],
    ["wide-dark", { colorScheme: "dark", reducedMotion: "reduce" }],
    ["narrow-light", { colorScheme: "light", viewport: NARROW }],
    ["narrow-dark", { colorScheme: "dark", viewport: NARROW }],
  ];
  test.each(LOOKS)("no accessibility rule is violated: %s", async (name, options) => {
    const [page, wrong] = await open(options);
    await page.waitForTimeout(2_500);
    expect(await accessibilityViolations(page)).toEqual([]);
    const beyond = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    expect(beyond, "it is wider than the window").toBeLessThanOrEqual(0);
    await picture(page, name);
    expect(wrong).toEqual([]);
    await page.context().close();
  });

  test("the page continues with a service that is upgraded, and packets still pass", async () => {
    const [page, wrong] = await open();
    await page.getByText("● live").waitFor();
    const sent = async () => {
      const { adapters } = await service.ask<Sample>("v1/adapters");
      return adapters.find(({ name }) => name === "calm")?.up[0]?.total.sent ?? 0;
    };
    const before = await sent();
    await service.upgrade();
    // The first sample may have been sent before the upgrade, so three are awaited.
    for (let sample = 0; sample < 3; sample++) {
      const shown = await page.locator(".state").textContent();
      const live = () => page.locator(".state.live").textContent();
      await expect.poll(live, { timeout: PATIENCE }).not.toBe(shown);
    }
    const then = await sent();
    expect(then).toBeGreaterThanOrEqual(before);
    await expect.poll(sent, { timeout: PATIENCE }).toBeGreaterThan(then);
    // Aborted requests are not errors of the page.
    expect(wrong.filter((what) => !/ERR_|Failed to fetch|network error/.test(what))).toEqual([]);
    await page.context().close();
  });

  test("the page reports that the service is gone", async () => {
    const [page] = await open();
    await page.getByText("● live").waitFor();
    senders.forEach((sender) => sender.kill());
    await service.end();
    await page.getByText("the service does not answer: the values shown are old").waitFor();
    await page.context().close();
  });
});

const CYCLES = [
  ["gates", GATES, /a cycle takes 20\.0 ms; open gates are shaded/],
  ["phases", PHASES, /a cycle takes 20\.0 ms if every phase is used in full/],
] as const;
test.skipIf(!possible).each(CYCLES)("a cycle of %s is drawn: which flow held the link, and when", async (name, scenario, about) => {
  const [browser, service] = await Promise.all([launch(), Service.start(scenario)]);
  const senders = await Promise.all([service.send("early", 10, 20, 1400), service.send("late", 10, 20, 1400)]);
  try {
    const page = await browser.newPage({ viewport: WIDE, colorScheme: "light" });
    page.setDefaultTimeout(PATIENCE);
    await page.goto(`${service.address}#token=${encodeURIComponent(TOKEN)}`);
    await page.getByText(about).waitFor();
    await page.getByRole("img", { name: /early [34]\d %, late [456]\d %/ }).waitFor();
    await picture(page, name);
    if (name !== "gates") return;
    expect(await page.locator(".cycle rect.open").count()).toBeGreaterThanOrEqual(8);
    // A flow that holds the link has an open gate.
    const outside = await page.locator(".cycle svg").evaluateAll((rows) =>
      rows.flatMap((row) => {
        const spans = (kind: string) => [...row.querySelectorAll(`.${kind}`)].map((rect) => [Number(rect.getAttribute("x")), Number(rect.getAttribute("width"))] as const);
        const open = spans("open");
        return spans("held").filter(([from, wide]) => !open.some(([gate, length]) => from >= gate - 1 && from + wide <= gate + length + 1));
      }),
    );
    expect(outside).toEqual([]);
  } finally {
    senders.forEach((sender) => sender.kill());
    await browser.close();
    await service.end();
  }
}, 90_000);

test.skipIf(!possible)("adapters of a tenant, each under its discipline", async () => {
  const [browser, service] = await Promise.all([launch(), Service.start(TENANTS)]);
  const sender = await service.send("shop/web", 10, 4, 1000);
  try {
    const page = await browser.newPage({ viewport: WIDE, colorScheme: "light" });
    page.setDefaultTimeout(PATIENCE);
    await page.goto(`${service.address}#token=${encodeURIComponent(TOKEN)}`);
    await page.getByRole("button", { name: "shop/web" }).click();
    await page.getByRole("img", { name: /^3 adapters, some of a tenant, on link uplink/ }).waitFor();
    expect(await page.locator(".topology text.strong").allTextContents()).toEqual(["shop", "uplink, 20mbit", "uplink →"]);
    // The tenant's discipline has caps, the link's has none.
    await page.getByLabel("Cap").fill("9mbit");
    await page.getByText("✓ limit 9mbit: that would fit.").waitFor();
    await page.getByLabel("Cap").press("Enter");
    await page.getByText("✓ limit 9mbit: done.").waitFor();
    expect(await service.scenario()).toContain('limit = "9mbit"');
    await page.getByRole("button", { name: "guest" }).click();
    await page.getByRole("heading", { name: "guest sends" }).waitFor();
    await page.getByLabel("Cap").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "shop/web" }).click();
    await picture(page, "tenants");
  } finally {
    sender.kill();
    await browser.close();
    await service.end();
  }
}, 90_000);

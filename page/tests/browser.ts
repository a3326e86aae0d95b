// Starts a headless browser, and has the checks that every page must pass.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { type Browser, type Page, chromium } from "playwright-core";

const ARGUMENTS = [
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // Chromium's own sandbox does not run as root.
  ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PICTURES = process.env.PICTURES ?? "pictures";

/** Starts the browser. */
export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });
}

/** Returns a list that collects the errors of a page, its requests to other hosts than the service, and requests whose URL contains the token. */
export function watched(page: Page, address: string): string[] {
  const wrong: string[] = [];
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(address) && !url.startsWith("data:")) wrong.push(`the page requests ${url}`);
    if (url.includes("token")) wrong.push(`the token is in ${url}`);
  });
  page.on("console", (message) => {
    // The statuses 401 and 409 are expected: the page itself reports them.
    const refused = /status of (401|409)/.test(message.text());
    if (message.type() === "error" && !refused) wrong.push(message.text());
  });
  return wrong;
}

/** Returns the page's violations of accessibility rules. */
export async function accessibilityViolations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const axe = (window as unknown as { axe: { run: () => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> } }).axe;
    const { violations } = await axe.run();
    return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)}: ${node.failureSummary}`));
  });
}

/** Writes a picture of the whole page to the directory `PICTURES`. */
export async function picture(page: Page, name: string): Promise<void> {
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
}

// Dark or light colours, as set in the system or chosen on the page.

const KEPT = "falaj theme";
const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const probe = document.createElement("span");
probe.hidden = true;
let known = new Map<string, string>();
const told: (() => void)[] = [];

/** The choice on the page; `auto` follows the system. */
export function theme(): Theme {
  const kept = localStorage.getItem(KEPT);
  return THEMES.find((theme) => theme === kept) ?? "auto";
}

/** Stores a choice and applies it. */
export function choose(theme: Theme): void {
  localStorage.setItem(KEPT, theme);
  apply();
}

/** Calls `then` whenever the colours change. */
export function onTheme(then: () => void): void {
  told.push(then);
}

/** The present value of a colour of the style sheet, for drawing on a canvas. */
export function colour(name: string): string {
  let value = known.get(name);
  if (value === undefined) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(--${name})`;
    value = getComputedStyle(probe).color;
    known.set(name, value);
  }
  return value;
}

/** Applies the chosen colours to the page and the charts. */
function apply(): void {
  document.documentElement.dataset.theme = theme();
  known = new Map();
  told.forEach((then) => then());
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
apply();

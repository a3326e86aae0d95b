// The token: it is read from the address's fragment, which no request carries, and kept while the tab is open.

const KEPT = "falaj token";

/** The token of `#token=…`, if there is one. */
export function ofFragment(hash: string): string | null {
  return new URLSearchParams(hash.replace(/^#/, "")).get("token") || null;
}

/** The token. If the address has one, it is kept, and removed from the address. */
export function token(): string | null {
  const given = ofFragment(location.hash);
  if (given !== null) {
    history.replaceState(null, "", location.pathname + location.search);
    keep(given);
  }
  return sessionStorage.getItem(KEPT);
}

export function keep(token: string): void {
  sessionStorage.setItem(KEPT, token);
}

export function forget(): void {
  sessionStorage.removeItem(KEPT);
}

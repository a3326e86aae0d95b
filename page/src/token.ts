// The token of the API. It is read from the address's fragment, which no request contains, and kept while the tab is open.

const KEPT = "falaj token";

/** The token in the fragment `#token=…` of the address; null if there is none. */
export function ofFragment(hash: string): string | null {
  return new URLSearchParams(hash.replace(/^#/, "")).get("token") || null;
}

/** The token of this tab, or null. A token in the address is stored for the tab, and removed from the address. */
export function token(): string | null {
  const given = ofFragment(location.hash);
  if (given !== null) {
    history.replaceState(null, "", location.pathname + location.search);
    keep(given);
  }
  return sessionStorage.getItem(KEPT);
}

/** Stores the token for this tab. */
export function keep(token: string): void {
  sessionStorage.setItem(KEPT, token);
}

/** Removes the stored token. */
export function forget(): void {
  sessionStorage.removeItem(KEPT);
}

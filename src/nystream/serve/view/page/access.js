/** The visitor's token: kept in this tab, sent with requests and, in a subprotocol, with WebSockets. */

const KEY = "nystream-token";
const PROTOCOL = "nystream.v1.json";
const SECONDS = 5;

let token = null;

/** An error of the service, with its code. */
export class Refusal extends Error {
  /** @param {{code: string, message: string}} error */
  constructor({ code, message }) {
    super(message);
    this.code = code;
  }
}

export function storedToken() {
  try {
    token ??= sessionStorage.getItem(KEY);
  } catch {
    // This browser stores nothing: it lasts until the page is left.
  }
  return token;
}

/** @param {string|null} value */
export function storeToken(value) {
  token = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, value);
  } catch {
    // As above.
  }
}

/** Fetch JSON; throws a Refusal if the service refuses. */
export async function ask(path) {
  const headers = storedToken() === null ? {} : { Authorization: `Bearer ${storedToken()}` };
  const options = { headers, cache: "no-store", signal: AbortSignal.timeout(1000 * SECONDS) };
  const response = await fetch(new URL(path, document.baseURI), options);
  const body = await response.json();
  if (!response.ok) throw new Refusal(body.error);
  return body;
}

/** Open a WebSocket of the service. A URL would be logged, so the token is not in it. */
export function openSocket(path) {
  const url = new URL(path, document.baseURI);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const bearer = storedToken() === null ? [] : [`nystream.bearer.${base64url(storedToken())}`];
  return new WebSocket(url, [PROTOCOL, ...bearer]);
}

function base64url(text) {
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The sign-in at an OpenID provider. Its tokens stay on the server: the page gets the one-time code that `assay view` uses too. */
import { request } from "./client";
import { currentAddress, formatAddress, navigate } from "~/state/address";
import { tabStorage } from "~/state/storage";

export interface SignInProvider {
  label: string;
  address: string; // of this server; it sends the browser on
}

/** What the fragment of the address says about a sign-in. */
export interface Arrival {
  code: string | null;
  problem: string;
  tenants: string[]; // of a person who belongs to several: one must be chosen
}

const RETURN = "assay.return"; // where the page was when the browser left for the provider
const PROBLEMS: Record<string, string> = {
  away: "The sign-in service does not answer. Try again, or use an API key.",
  denied: "The sign-in was cancelled.",
  expired: "The sign-in took too long, or its answer was used before. Sign in again.",
  refused: "The server does not accept the answer of the sign-in service. Its log says why; ask its operator.",
  tenant: "Your account belongs to no tenant of this server. Ask its operator.",
  scopes: "Your account may do nothing on this server. Ask its operator.",
};

export async function getSignInProvider(signal?: AbortSignal): Promise<SignInProvider | null> {
  return (await request<{ provider: SignInProvider | null }>("/v1/host/assay/sign-in", { key: "", signal })).provider;
}

/** Leave for the provider. What was shown is shown again afterwards. */
export function goToProvider(provider: SignInProvider, tenant = ""): void {
  tabStorage.set(RETURN, window.location.hash);
  leaveFor(tenant ? `${provider.address}?tenant=${encodeURIComponent(tenant)}` : provider.address);
}

/** Go to another site, which the server has named. */
export function leaveFor(address: string): void {
  if (/^https?:\/\//.test(address)) window.location.assign(address);
}

/**
 * What the address says of a sign-in, once: it leaves the address and the history before it is used.
 *
 * `assay view` puts a code into the address of any screen. The server sends a browser that was at the provider to an
 * address of its own; then the page shows again what it showed before.
 */
export function takeArrival(): Arrival {
  const { path, params } = currentAddress();
  const arrival: Arrival = {
    code: params.get("code"),
    problem: path === "/sign-in" ? (PROBLEMS[params.get("problem") ?? ""] ?? "") : "",
    tenants: path === "/sign-in" ? params.getAll("tenant") : [],
  };
  if (path === "/sign-in" || path === "/signed-in") {
    navigate(tabStorage.get(RETURN) || "#/", { replace: true });
    tabStorage.remove(RETURN);
  } else if (arrival.code !== null) {
    params.delete("code");
    navigate(formatAddress(path, params), { replace: true });
  }
  return arrival;
}

/** The tenant and the scopes of the key in use. */
import { useQuery } from "@tanstack/react-query";
import { request } from "./client";
import { signOut, useSession } from "./session";
import { leaveFor } from "./signIn";

export interface Identity {
  tenant: string;
  scopes: string[];
  session: boolean; // the key is that of a session, which signing out ends
  version: string; // of the server
}

export function getIdentity(key?: string, signal?: AbortSignal): Promise<Identity> {
  return request<Identity>("/v1/host/assay/session", { key, signal });
}

/** Exchange a one-time code for the key of a session. The code of a provider works only in the browser that was there. */
export async function exchangeCode(code: string): Promise<string> {
  const answer = await request<{ key: string }>("/v1/host/assay/session:exchange", { method: "POST", body: { code }, key: "", cookies: true });
  return answer.key;
}

/** Forget the key. The session of a one-time code ends on the server too, and maybe at its provider; an API key stays as it is. */
export async function endSession(session: boolean): Promise<void> {
  const ending = session ? request<{ next: string }>("/v1/host/assay/session", { method: "DELETE" }).catch(() => undefined) : undefined;
  signOut();
  const ended = await ending;
  if (ended?.next) leaveFor(ended.next);
}

export function useIdentity(): Identity | undefined {
  const { key } = useSession();
  return useQuery({
    queryKey: ["identity"],
    queryFn: ({ signal }) => getIdentity(undefined, signal),
    enabled: key !== null,
    staleTime: Infinity,
  }).data;
}

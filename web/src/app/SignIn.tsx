import "./app.css";
import { type FormEvent, useEffect, useState } from "react";
import { ApiError } from "~/api/client";
import { getIdentity } from "~/api/identity";
import { signIn } from "~/api/session";
import { getSignInProvider, goToProvider, type SignInProvider } from "~/api/signIn";
import { Button, Field, Notice, VisibleText } from "~/ui";
import icon from "./icon.svg";

/**
 * Asks for a key, or leads to the OpenID provider of the server. The key stays in this tab and goes only into a header of
 * requests to this server. `tenants`: those that a person who was at the provider may choose from.
 */
export function SignIn({ reason, tenants = [] }: { reason: string; tenants?: string[] }) {
  const [provider, setProvider] = useState<SignInProvider | null>(null);
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState(reason);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · assay";
    const stop = new AbortController();
    getSignInProvider(stop.signal).then(setProvider, () => undefined); // without an answer there is the key
    return () => stop.abort();
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const text = key.trim();
    if (!text) {
      setProblem("Enter a key.");
      return;
    }
    setBusy(true);
    setProblem("");
    getIdentity(text).then(
      () => signIn(text),
      (error: unknown) => {
        setBusy(false);
        const refused = error instanceof ApiError && error.status === 401;
        setProblem(refused ? `The server does not accept this key: ${error.message}` : error instanceof Error ? error.message : String(error));
      },
    );
  };
  return (
    <main className="gate">
      <form onSubmit={submit} autoComplete="off">
        <span className="brand">
          <img src={icon} alt="" />
          <h1>assay</h1>
        </span>
        {problem && (
          <div role="alert">
            <Notice tone="fail">{problem}</Notice>
          </div>
        )}
        {provider && tenants.length === 0 && (
          <Button kind="primary" onClick={() => goToProvider(provider)}>
            Sign in with {provider.label}
          </Button>
        )}
        {provider && tenants.length > 0 && (
          <div role="group" aria-labelledby="tenants" className="tenants">
            <p id="tenants">You belong to several tenants. Sign in to:</p>
            {tenants.map((tenant) => (
              <Button key={tenant} kind="primary" onClick={() => goToProvider(provider, tenant)}>
                <VisibleText text={tenant} />
              </Button>
            ))}
          </div>
        )}
        {provider && <p className="or">or</p>}
        <label>
          API key
          <Field
            type="password"
            name="api-key"
            autoComplete="off"
            autoFocus
            spellCheck={false}
            value={key}
            aria-describedby="key-hint"
            onChange={(event) => setKey(event.target.value)}
          />
        </label>
        <Button kind={provider ? "normal" : "primary"} type="submit" disabled={busy}>
          {busy ? "Signing in" : provider ? "Sign in with the key" : "Sign in"}
        </Button>
        <p id="key-hint" className="hint">
          The key stays in this tab. It is never in an address or a cookie. <code>assay view</code> signs in without one;{" "}
          <code>assay admin key create</code> creates a key.
        </p>
      </form>
    </main>
  );
}

import "./app.css";
import { type FormEvent, useEffect, useState } from "react";
import { ApiError } from "~/api/client";
import { getIdentity } from "~/api/identity";
import { signIn } from "~/api/session";
import { Button, Field, Notice } from "~/ui";
import icon from "./icon.svg";

/** Asks for a key. The key stays in this tab and goes only into a header of requests to this server. */
export function SignIn({ reason }: { reason: string }) {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState(reason);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · assay";
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
        {problem && (
          <div role="alert">
            <Notice tone="fail">{problem}</Notice>
          </div>
        )}
        <Button kind="primary" type="submit" disabled={busy}>
          {busy ? "Signing in" : "Sign in"}
        </Button>
        <p id="key-hint" className="hint">
          The key stays in this tab. It is never in an address or a cookie. <code>assay view</code> signs in without one;{" "}
          <code>assay admin key create</code> creates a key.
        </p>
      </form>
    </main>
  );
}

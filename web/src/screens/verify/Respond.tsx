import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { ApiError } from "~/api/client";
import { respond } from "~/api/decisions";
import { useIdentity } from "~/api/identity";
import { Button, Notice } from "~/ui";

interface Props {
  run: string;
  node: string;
  actions: readonly string[];
  acceptLabel: string;
  rejectLabel: string;
  accept: string; // what it does
  reject: string;
  /** A text answer, in place of accept and reject. */
  question?: boolean;
  /** A decision that the person may change before accepting it. */
  editable?: unknown;
  /** Whether a reason can be given with the answer. */
  reasons?: boolean;
  override?: boolean;
  children?: ReactNode;
}

/** The form that answers a run that waits. A refusal is shown in the words of the server. */
export function Respond(props: Props) {
  const { run, node, actions } = props;
  const queries = useQueryClient();
  const scopes = useIdentity()?.scopes;
  const [text, setText] = useState("");
  const [edited, setEdited] = useState(() => JSON.stringify(props.editable, null, 2) ?? "");
  const [problem, setProblem] = useState("");
  const answer = useMutation({
    mutationFn: (value: Record<string, unknown>) => respond(run, node, value),
    onSettled: () => queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === "decision" || queryKey[0] === "waiting" || queryKey[0] === "run" || queryKey[0] === "runs" }),
  });
  const allowed = scopes === undefined || scopes.includes("approvals:respond");
  const send = (action: string) => {
    setProblem("");
    if (action === "override" && !text.trim()) return setProblem("An override needs a reason.");
    let decision: unknown;
    if (action === "edit-accept") {
      try {
        decision = JSON.parse(edited);
      } catch (error) {
        return setProblem(`The decision is not valid JSON: ${error instanceof Error ? error.message : "expected JSON"}`);
      }
    }
    answer.mutate({ action, ...(action === "edit-accept" ? { decision } : {}), ...(props.reasons && text.trim() ? { reason: text.trim() } : {}) });
  };
  const busy = answer.isPending || answer.isSuccess;
  return (
    <div className="verify-respond">
      {props.children}
      {!allowed && <Notice tone="warn">This key can read the run, but cannot answer it. An answer needs the scope approvals:respond.</Notice>}
      {props.question ? (
        <form
          className="stack"
          onSubmit={(event) => {
            event.preventDefault();
            answer.mutate({ answer: text });
          }}
        >
          <label className="stack">
            <span>Your answer</span>
            <textarea className="field" rows={4} value={text} onChange={(event) => setText(event.target.value)} required />
          </label>
          <div>
            <Button kind="primary" type="submit" disabled={busy || !allowed || !text.trim()}>
              Send the answer
            </Button>
          </div>
        </form>
      ) : (
        <>
          <dl className="verify-meanings">
            <div>
              <dt>{props.acceptLabel}</dt>
              <dd>{props.accept}</dd>
            </div>
            <div>
              <dt>{props.rejectLabel}</dt>
              <dd>{props.reject}</dd>
            </div>
          </dl>
          {actions.includes("edit-accept") && (
            <label className="stack">
              <span className="quiet">The decision (you may edit it)</span>
              <textarea className="field mono" rows={6} spellCheck={false} value={edited} onChange={(event) => setEdited(event.target.value)} />
            </label>
          )}
          {props.reasons && (
            <label className="stack">
              <span className="quiet">Reason{props.override ? " (an override needs one)" : " (optional)"}</span>
              <input className="field" value={text} maxLength={512} onChange={(event) => setText(event.target.value)} />
            </label>
          )}
          <div className="row wrap">
            <Button kind="primary" icon="check" disabled={busy || !allowed} onClick={() => send("accept")}>
              {props.acceptLabel}
            </Button>
            {actions.includes("edit-accept") && (
              <Button disabled={busy || !allowed} onClick={() => send("edit-accept")}>
                Carry out as changed
              </Button>
            )}
            <Button kind="danger" icon="close" disabled={busy || !allowed} onClick={() => send("reject")}>
              {props.rejectLabel}
            </Button>
            {props.override && (
              <Button disabled={busy || !allowed} onClick={() => send("override")}>
                Override the quorum
              </Button>
            )}
          </div>
        </>
      )}
      <div role="alert">
        {problem && <Notice tone="fail">{problem}</Notice>}
        {answer.isError && <Notice tone="fail">{refusal(answer.error)}</Notice>}
      </div>
      <div role="status">{answer.isSuccess && <Notice>The answer is recorded. The run continues.</Notice>}</div>
    </div>
  );
}

function refusal(error: Error): string {
  if (!(error instanceof ApiError)) return error.message;
  const scope = error.details["scopeRequired"];
  if (typeof scope === "string") return `This key may not answer. An answer needs the scope ${scope}. Nothing has changed.`;
  if (error.status === 403) return `The policy does not allow this answer: ${error.message}. Nothing has changed.`;
  if (error.status === 409) return `The run did not accept the answer: ${error.message}.`;
  return `${error.message}.`.replace("..", ".");
}

import "~/screens/run/run.css";
import "~/screens/run/case.css";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { type CaseStatus, getCase, type TrialDetail } from "~/api/cases";
import { ApiError, reportSource } from "~/api/client";
import { ContentMode, ContentView } from "~/content/ContentView";
import { textOf } from "~/content/shapes";
import { DifferenceView } from "~/screens/run/DifferenceView";
import { formatAddress, useParam } from "~/state/address";
import { useKeys } from "~/state/keyboard";
import { Button, Chip, CopyButton, Drawer, ErrorState, format, Loading, Notice, Segments, type Tone, VisibleText } from "~/ui";
import type { OpenCase } from "./outside";
import { Trajectories } from "./Trajectories";
import { pairText, trialPair } from "./trials";
import { CHANGE_TONE, CHANGE_WORD, differenceText } from "./words";

interface Props {
  id: string;
  row: OpenCase | undefined;
  loading: boolean;
  error: unknown;
  baseline: string;
  run: string;
  onMove: (by: 1 | -1) => void;
  onClose: () => void;
}

/** One case in both runs: what differs in the outputs, and the checks beside each other. */
export function SideBySide({ id, row, loading, error, baseline, run, onMove, onClose }: Props) {
  useKeys("Case", [
    { keys: "j", label: "Next case", run: () => onMove(1) },
    { keys: "k", label: "Previous case", run: () => onMove(-1) },
    { keys: "Escape", label: "Close", run: onClose },
  ]);
  return (
    <Drawer
      wide
      title={<VisibleText text={id.slice(0, 300)} />}
      onClose={onClose}
      actions={
        <>
          <CopyButton text={() => window.location.href} label="Copy the link to this case" />
          <Button kind="plain" icon="up" aria-label="Previous case (k)" onClick={() => onMove(-1)} />
          <Button kind="plain" icon="down" aria-label="Next case (j)" onClick={() => onMove(1)} />
        </>
      }
    >
      {row ? (
        <Both key={id} row={row} baseline={baseline} run={run} />
      ) : loading ? (
        <Loading label="Loading the case" lines={8} />
      ) : error ? (
        <ErrorState error={error} />
      ) : (
        <Notice>Neither run has a case with this id.</Notice>
      )}
    </Drawer>
  );
}

function useCase(run: string, position: number | undefined) {
  return useQuery({
    queryKey: ["run", run, "case", position],
    queryFn: ({ signal }) => getCase(run, position ?? 0, signal),
    enabled: position !== undefined,
    retry: false,
  });
}

function Both({ row, baseline, run }: { row: OpenCase; baseline: string; run: string }) {
  const before = useCase(baseline, row.position_before);
  const after = useCase(run, row.position_after);
  const [mode, setMode] = useParam("outputs", "difference");
  const trials = [before.data?.trials ?? [], after.data?.trials ?? []] as const;
  const [first, second] = trialPair(...trials);
  const shown = pairText([first, second], [trials[0].length, trials[1].length]);
  const loading = (before.isPending && row.position_before !== undefined) || (after.isPending && row.position_after !== undefined);
  const failed = before.error ?? after.error;
  const inputs = useMemo(() => [textOf(before.data?.input ?? ""), textOf(after.data?.input ?? "")], [before.data, after.data]);
  return (
    <div className="compare-both">
      <div className="row wrap">
        {row.change && <Chip tone={CHANGE_TONE[row.change]}>{CHANGE_WORD[row.change]}</Chip>}
        <span className="num">
          {format.caseValue(row.before)} → {format.caseValue(row.after)} <strong>{differenceText(row.before, row.after)}</strong>
        </span>
        <span className="grow" />
        <ContentMode />
      </div>
      <div className="compare-columns">
        <Reason title="Before" text={row.reason_before} status={before.data?.row.status} run={baseline} position={row.position_before} />
        <Reason title="After" text={row.reason_after} status={after.data?.row.status} run={run} position={row.position_after} />
      </div>
      {failed instanceof ApiError && failed.code === "not_in_report" ? (
        <Notice>{failed.message}</Notice>
      ) : failed ? (
        <ErrorState error={failed} />
      ) : loading ? (
        <Loading label="Loading the case" lines={8} />
      ) : (
        <>
          {shown && <p className="quiet num">{shown}</p>}
          <section>
            <h3>Input</h3>
            {before.data && after.data && inputs[0] !== inputs[1] ? (
              <>
                <Notice tone="warn">The two runs have different inputs under this id. These are probably not the same case.</Notice>
                <DifferenceView expected={before.data.input} actual={after.data.input} names={["before", "after"]} />
              </>
            ) : (
              <ContentView value={before.data?.input ?? after.data?.input} label="Input" />
            )}
          </section>
          {(before.data?.expected ?? after.data?.expected) !== undefined && (
            <section>
              <h3>Expected</h3>
              <ContentView value={before.data?.expected ?? after.data?.expected} label="Expected" />
            </section>
          )}
          <section>
            <div className="row">
              <h3>Output</h3>
              <span className="grow" />
              {first && second && (
                <Segments
                  label="How the outputs are shown"
                  value={mode}
                  options={[
                    ["difference", "Difference"],
                    ["both", "Side by side"],
                  ]}
                  onChange={setMode}
                />
              )}
            </div>
            {first && second && mode === "difference" ? (
              textOf(first.output ?? "") === textOf(second.output ?? "") ? (
                <>
                  <p className="quiet">The outputs are equal.</p>
                  <ContentView value={second.output} label="Output" />
                </>
              ) : (
                <DifferenceView expected={first.output} actual={second.output} names={["before", "after"]} />
              )
            ) : (
              <div className="compare-columns">
                <Side title="Before" trial={first} />
                <Side title="After" trial={second} />
              </div>
            )}
          </section>
          <Checks before={first} after={second} />
          {(first?.trajectory ?? second?.trajectory) && <Trajectories before={first?.trajectory ?? []} after={second?.trajectory ?? []} />}
        </>
      )}
    </div>
  );
}

const EDGE: Partial<Record<CaseStatus, string>> = { passed: "good", failed: "bad" };

/** Why a run has the result that it has. The edge has the colour of that run's own result, not of the change. */
export function Reason({ title, text, status, run, position }: { title: string; text: string | undefined; status: CaseStatus | undefined; run: string; position: number | undefined }) {
  return (
    <div className={`compare-reason ${(status && EDGE[status]) ?? ""}`}>
      <div className="row">
        <span className="faint">{title}</span>
        <span className="grow" />
        {position !== undefined && <a href={formatAddress(`/runs/${encodeURIComponent(run)}`, { case: String(position) })}>Open in its run</a>}
      </div>
      <p>{text ? <VisibleText text={text} /> : <span className="faint">{position === undefined ? "This run does not have the case." : reportSource() === null ? "No reason is stored." : "The report has no reason."}</span>}</p>
    </div>
  );
}

function Side({ title, trial }: { title: string; trial: TrialDetail | undefined }) {
  return (
    <div>
      <div className="faint">{title}</div>
      {trial ? <ContentView value={trial.output} label={`Output ${title.toLowerCase()}`} /> : <p className="quiet">This run has no output for the case.</p>}
    </div>
  );
}

/** The checks of both runs, beside each other, those that differ first. */
function Checks({ before, after }: { before: TrialDetail | undefined; after: TrialDetail | undefined }) {
  const labels = [...new Set([...(before?.checks ?? []), ...(after?.checks ?? [])].map((check) => check.label))];
  const rows = labels
    .map((label) => ({ label, before: before?.checks.find((one) => one.label === label), after: after?.checks.find((one) => one.label === label) }))
    .sort((one, other) => Number(one.before?.passed === one.after?.passed) - Number(other.before?.passed === other.after?.passed));
  if (rows.length === 0) return null;
  return (
    <section>
      <h3>Checks</h3>
      <ul className="compare-checks">
        {rows.map((row) => (
          <li key={row.label}>
            <strong>
              <VisibleText text={row.label} />
            </strong>
            <div className="compare-columns">
              <CheckSide check={row.before} word="before" />
              <CheckSide check={row.after} word="after" />
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

function CheckSide({ check, word }: { check: TrialDetail["checks"][number] | undefined; word: string }) {
  if (!check) return <p className="faint">not among the checks {word}</p>;
  const [tone, text]: [Tone, string] =
    check.status !== "completed" ? ["warn", "not measured"] : check.passed === null ? ["mute", "no verdict"] : check.passed ? ["pass", "passed"] : ["fail", "failed"];
  return (
    <div>
      <span className="faint compare-side">{word}</span>
      <Chip tone={tone}>{text}</Chip>
      {check.passed !== true && check.reason && (
        <p className="compare-why">
          <VisibleText text={`${check.title}: ${check.reason}`} />
        </p>
      )}
    </div>
  );
}

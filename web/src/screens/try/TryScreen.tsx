import "~/screens/run/run.css";
import "~/screens/run/case.css";
import "./try.css";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import type { ScreenProps } from "~/app/routes";
import { ApiError, apiUrl } from "~/api/client";
import { type EvaluationRequest, runEvaluation, tryEvaluation } from "~/api/evaluate";
import { formatAddress, navigate, useParam } from "~/state/address";
import { useKeys } from "~/state/keyboard";
import { part } from "~/state/parts";
import { tabStorage } from "~/state/storage";
import { Button, Empty, ErrorState, Loading, Menu, Segments, writeClipboard } from "~/ui";
import { Catalogue } from "./Catalogue";
import { CodeArea } from "./CodeArea";
import { toCurl, toPython, toYaml } from "./copies";
import { buildRequest, type Draft, EXAMPLE, type LineProblem, locate, type Part } from "./draft";

const STORED = "assay.try"; // in sessionStorage: the texts are content, so they are in no address
const SILENCE_MS = 350;
const RESULTS = part("results of a draft", () => import("./Results"));

function storedDraft(): Draft {
  try {
    return { ...EXAMPLE, ...(JSON.parse(tabStorage.get(STORED) ?? "{}") as Partial<Draft>) };
  } catch {
    return EXAMPLE;
  }
}

/** A case, an output and checks; the result is there as soon as the person stops typing. */
export default function TryScreen(_: ScreenProps) {
  const [draft, setDraft] = useState(storedDraft);
  const [settled, setSettled] = useState(draft);
  const [panel, setPanel] = useParam("panel");
  useEffect(() => {
    const timer = setTimeout(() => setSettled(draft), SILENCE_MS);
    tabStorage.set(STORED, JSON.stringify(draft)); // a text of megabytes does not fit: it stays in memory
    return () => clearTimeout(timer);
  }, [draft]);
  const built = useMemo(() => buildRequest(settled), [settled]);
  const result = useQuery({
    queryKey: ["try", built.request],
    queryFn: ({ signal }) => tryEvaluation(built.request as EvaluationRequest, signal),
    enabled: built.request !== null,
    placeholderData: keepPreviousData,
    retry: false,
    gcTime: 0,
  });
  const view = useQuery(RESULTS);
  const queries = useQueryClient();
  const stored = useMutation({
    mutationFn: runEvaluation,
    onSuccess: (answer) => {
      void queries.invalidateQueries({ queryKey: ["runs"] });
      navigate(formatAddress(`/runs/${encodeURIComponent(answer.evaluation_id)}`));
    },
  });
  const run = () => built.request && stored.mutate(built.request);
  useKeys("Try it", [{ keys: "mod+enter", label: "Run it and store the run", run, inText: true }]);
  const refused = result.error ?? stored.error;
  const problems = [...built.problems, ...(built.problems.length === 0 ? serverProblems(refused, built) : [])];
  const of = (part: Part) => problems.filter((problem) => problem.part === part);
  const needsRun = refused instanceof ApiError && problemsOf(refused).some((problem) => problem.place === "store");
  const change = (part: Partial<Draft>) => setDraft((before) => ({ ...before, ...part }));
  return (
    <div className="screen try">
      <header className="screen-head">
        <h1>Try it</h1>
        <span className="quiet try-lead">Evaluated as you type. Nothing is stored until you run it.</span>
        <span className="grow" />
        <div className="toolbar">
          <Button onClick={() => change(EXAMPLE)}>Example</Button>
          <CopyMenu request={built.request} />
          <Button kind="primary" disabled={!built.request || stored.isPending} title="Ctrl Enter" onClick={run}>
            Run and store
          </Button>
        </div>
      </header>
      <div className="try-columns">
        <div className="try-editors">
          <section className="card try-part">
            <div className="row">
              <h2>Test case</h2>
              <span className="faint">YAML or JSON: input, expected, metadata</span>
            </div>
            <CodeArea label="Test case" rows={4} value={draft.case} onChange={(text) => change({ case: text })} problems={of("case")} placeholder="input: …" />
          </section>
          <section className="card try-part">
            <div className="row">
              <h2>Output</h2>
              <span className="grow" />
              <Segments
                label="Format of the output"
                value={draft.json ? "value" : "text"}
                options={[
                  ["text", "Text"],
                  ["value", "JSON or YAML"],
                ]}
                onChange={(kind) => change({ json: kind === "value" })}
              />
            </div>
            <CodeArea label="Output" rows={5} wrap={!draft.json} value={draft.output} onChange={(text) => change({ output: text })} problems={of("output")} placeholder="The answer of the model or the agent" />
          </section>
          <section className="card try-part">
            <div className="row">
              <h2>Checks</h2>
              <span className="faint">YAML or JSON: a list</span>
              <span className="grow" />
              <Button size="small" icon="plus" onClick={() => setPanel("checks")}>
                All checks
              </Button>
            </div>
            <CodeArea label="Checks" rows={12} value={draft.checks} onChange={(text) => change({ checks: text })} problems={of("checks")} placeholder="- type: contains" />
          </section>
        </div>
        <section className="card try-result" aria-label="Result" aria-busy={result.isFetching}>
          <h2>Result</h2>
          {needsRun ? (
            <Empty title="This evaluation must be stored" icon="clock">
              <p>One of its checks calls a model or waits for another service, so it is not evaluated while you type.</p>
              <Button kind="primary" disabled={stored.isPending} onClick={run}>
                {stored.isPending ? "Running…" : "Run and store"}
              </Button>
            </Empty>
          ) : problems.length > 0 ? (
            <Empty title="Not valid yet" icon="help">
              <p>{problems.length === 1 ? "There is one problem." : `There are ${problems.length} problems.`} Each problem is shown below its text.</p>
            </Empty>
          ) : refused ? (
            <ErrorState error={refused} retry={() => void result.refetch()} />
          ) : view.isError ? (
            <ErrorState error={view.error} retry={() => window.location.reload()} />
          ) : result.data && view.data ? (
            <view.data.Results checks={result.data.results[0]?.check_results ?? []} />
          ) : (
            <Loading />
          )}
        </section>
      </div>
      {panel === "checks" && (
        <Catalogue
          onClose={() => setPanel("")}
          onAdd={(snippet) => {
            change({ checks: `${draft.checks.trimEnd()}${draft.checks.trim() ? "\n" : ""}${snippet}` });
            setPanel("");
          }}
        />
      )}
    </div>
  );
}

function problemsOf(error: ApiError): { place: string; message: string }[] {
  const listed = error.details["problems"];
  return Array.isArray(listed) ? (listed as { place: string; message: string }[]) : [];
}

function serverProblems(error: Error | null, built: ReturnType<typeof buildRequest>): LineProblem[] {
  if (!(error instanceof ApiError) || error.status !== 400) return [];
  return problemsOf(error).map((problem) => locate(problem.place, problem.message, built));
}

/** The request as a file, a command or a program. */
function CopyMenu({ request }: { request: EvaluationRequest | null }) {
  const [said, setSaid] = useState("");
  const forms: [string, (request: EvaluationRequest) => string][] = [
    ["YAML for assay evaluate", toYaml],
    ["curl", (one) => toCurl(one, apiUrl("/v1/evaluate"))],
    ["Python", toPython],
  ];
  return (
    <>
      <Menu
        trigger={
          <Button icon="copy" disabled={!request}>
            Copy as
          </Button>
        }
        entries={forms.map(([label, form]) => ({
          label,
          onSelect: () => request && void writeClipboard(form(request)).then((ok) => setSaid(ok ? `Copied as ${label}` : "The browser refused to copy")),
        }))}
      />
      <span className="sr" role="status">
        {said}
      </span>
    </>
  );
}

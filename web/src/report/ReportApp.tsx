import "~/app/app.css";
import "./report.css";
import icon from "~/app/icon.svg";
import CompareScreen from "~/screens/compare/CompareScreen";
import RunScreen from "~/screens/run/RunScreen";
import { formatAddress, matchPath, useAddress } from "~/state/address";
import { setTheme, type Theme, useTheme } from "~/state/theme";
import { Button, format, Menu, Notice, VisibleText } from "~/ui";
import type { Report } from "./data";

const THEMES: [Theme, string][] = [
  ["system", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
];

/** The screens of a run and of a comparison, with the data of this file. */
export function ReportApp({ report }: { report: Report }) {
  const { path } = useAddress();
  const theme = useTheme();
  const params = matchPath("/runs/:id", path);
  return (
    <div className={report.comparison ? "frame" : "frame report-single"}>
      <header className="top">
        <span className="brand">
          <img src={icon} alt="" />
          assay
        </span>
        {report.comparison && <nav className="nav" aria-label="Parts of the report">
            <a href={compareAddress(report)} aria-current={params ? undefined : "page"}>
              Comparison
            </a>
            {report.runs.map(({ overview: { run } }, at) => (
              <a key={run.runId} href={runAddress(run.runId)} title={run.name || run.runId} aria-current={params?.["id"] === run.runId ? "page" : undefined}>
                {at === 0 ? "Baseline" : report.runs.length > 2 ? `Run ${at}` : "Run"}
              </a>
            ))}
        </nav>}
        <span className="grow" />
        <span className="faint report-made">
          Report of {format.moment(report.createdAt)}, assay <VisibleText text={report.version} />
        </span>
        <Menu
          trigger={<Button kind="plain" icon={theme === "light" ? "sun" : theme === "dark" ? "moon" : "screen"} aria-label="Theme" />}
          entries={THEMES.map(([value, label]) => ({ label, checked: theme === value, onSelect: () => setTheme(value) }))}
        />
      </header>
      <main id="main" className="main" tabIndex={-1}>
        <Limits report={report} />
        {params || !report.comparison ? (
          <RunScreen key={params?.["id"]} params={{ id: params?.["id"] ?? report.runs[0]?.overview.run.runId ?? "" }} />
        ) : (
          <CompareScreen params={{}} />
        )}
      </main>
    </div>
  );
}

/** What is not in this file. */
function Limits({ report }: { report: Report }) {
  const lines: string[] = [];
  if (report.redacted) lines.push("Ids, inputs, outputs, reasons and tags were left out of this report.");
  for (const { overview, rows, total, details } of report.runs) {
    const name = report.runs.length > 1 ? ` of ${overview.run.runId}` : "";
    if (rows.length < total) lines.push(`This report has ${format.count(rows.length)} of ${format.count(total)} cases${name}, failures first. The headline counts all cases.`);
    const missing = rows.filter((row) => details[String(row.position)] === undefined).length;
    if (missing > 0 && !report.redacted) lines.push(`The content of ${format.plural(missing, "case")}${name} is left out, because the size of a report is limited.`);
  }
  if (lines.length === 0) return null;
  return (
    <div className="report-limits">
      <Notice tone="warn">{lines.join(" ")}</Notice>
    </div>
  );
}

export function runAddress(run: string): string {
  return formatAddress(`/runs/${encodeURIComponent(run)}`);
}

export function compareAddress(report: Report): string {
  return formatAddress("/compare", { runs: report.runs.map(({ overview }) => overview.run.runId).join(",") });
}

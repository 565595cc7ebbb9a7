import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useMemo, useRef } from "react";
import { type CaseRow, queryCases } from "~/api/cases";
import { type ChangeFilter, type ComparedCase, getComparedCases, type PairComparison } from "~/api/comparison";
import { changeParams, useParam } from "~/state/address";
import { useKeys } from "~/state/keyboard";
import { Button, Chip, type Column, DataTable, type DataTableHandle, Empty, ErrorState, ExportMenu, type ExportColumn, format, Loading, Segments, VisibleText } from "~/ui";
import { caseOf, type OpenCase } from "./outside";
import { CHANGE_TONE, CHANGE_WORD, differenceText, filtersOf, firstFilter, LIST_NAMES } from "./words";

const SideBySide = lazy(() => import("./SideBySide").then((module) => ({ default: module.SideBySide })));
const PAGE = 100;
const MAX_EXPORT = 20_000;

const COLUMNS: Column<ComparedCase>[] = [
  { id: "change", header: "Change", width: "128px", cell: (row) => <Chip tone={CHANGE_TONE[row.change]}>{CHANGE_WORD[row.change]}</Chip> },
  { id: "case", header: "Case", width: "minmax(120px, 1.2fr)", cell: (row) => <CaseId id={row.id} /> },
  { id: "before", header: "Before", width: "70px", align: "end", cell: (row) => <span className="num">{format.caseValue(row.before)}</span> },
  { id: "after", header: "After", width: "70px", align: "end", cell: (row) => <span className="num">{format.caseValue(row.after)}</span> },
  { id: "difference", header: "Difference", width: "86px", align: "end", cell: (row) => <Difference row={row} /> },
  { id: "reason", header: "Why, before and after", width: "minmax(220px, 4fr)", cell: (row) => <Reasons row={row} />, from: 760 },
];

const EXPORT: ExportColumn<ComparedCase>[] = [
  { name: "case", value: (row) => row.id },
  { name: "change", value: (row) => CHANGE_WORD[row.change] },
  { name: "before", value: (row) => row.before },
  { name: "after", value: (row) => row.after },
  { name: "reason before", value: (row) => row.reason_before },
  { name: "reason after", value: (row) => row.reason_after },
];

interface Props {
  pair: PairComparison;
  query: { runs: string[]; metric: string; by: string; of: string };
  file: string;
}

/** The cases of a pair by what became of them, the worst first. Each opens side by side. */
export function CaseTable({ pair, query, file }: Props) {
  const [chosen, setChosen] = useParam("change", firstFilter(pair));
  const [sliceText] = useParam("slice");
  const [open] = useParam("case");
  const table = useRef<DataTableHandle>(null);
  const change = chosen as ChangeFilter;
  const slice = useMemo(() => sliceOf(sliceText, query.by), [sliceText, query.by]);
  const cases = useInfiniteQuery({
    queryKey: ["comparison", query.runs, query.metric, "cases", query.of, change, slice],
    queryFn: ({ pageParam, signal }) => getComparedCases({ ...query, change, slice }, pageParam, PAGE, signal),
    initialPageParam: 0,
    getNextPageParam: (page) => (page.first + page.cases.length < page.total && page.cases.length > 0 ? page.first + page.cases.length : undefined),
    staleTime: Infinity,
    retry: false,
  });
  const rows = useMemo(() => cases.data?.pages.flatMap((page) => page.cases) ?? [], [cases.data]);
  const total = cases.data?.pages[0]?.total ?? 0;
  const index = rows.findIndex((row) => row.id === open);
  const outside = useQuery({
    queryKey: ["comparison", "case", pair.baseline, pair.run, query.metric, open],
    queryFn: ({ signal }) => findCase(open, pair.baseline, pair.run, query.metric, signal),
    enabled: open !== "" && index < 0 && !cases.isPending,
    retry: false,
  });
  const show = (to: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, to))];
    if (row) changeParams({ case: row.id }, { replace: true });
    if (to >= rows.length - 5 && cases.hasNextPage && !cases.isFetchingNextPage) void cases.fetchNextPage();
  };
  useKeys("Compare", [
    { keys: "n", label: "Next changed case", run: () => show(index + 1) },
    { keys: "p", label: "Previous changed case", run: () => show(index - 1) },
  ]);
  const filters = filtersOf(pair);
  const known = filters.some(([name]) => name === change) ? filters : [...filters, [change, (LIST_NAMES as Record<string, string>)[change] ?? change, total] as (typeof filters)[number]];
  return (
    <section className="compare-cases" aria-label="Cases">
      <div className="toolbar">
        <h2>Cases</h2>
        <div className="compare-filters">
          <Segments
            label="Which cases"
            value={change}
            options={known.map(([name, word, count]) => [name, <Counted key={name} word={word} count={count} />] as const)}
            onChange={(next) => (setChosen(next), changeParams({ case: undefined }, { replace: true }))}
          />
        </div>
        {slice && (
          <Button size="small" icon="close" onClick={() => changeParams({ slice: undefined }, { replace: true })}>
            {slice.by}: <VisibleText text={slice.name} />
          </Button>
        )}
        <span className="grow" />
        <ExportMenu name={`${file}-cases`} columns={EXPORT} rows={() => everyCase({ ...query, change, slice })} />
      </div>
      {cases.isPending ? (
        <Loading label="Loading the cases" lines={6} />
      ) : cases.isError ? (
        <ErrorState error={cases.error} retry={() => void cases.refetch()} />
      ) : rows.length === 0 ? (
        <div className="card">
          <Empty title={change === "changed" ? "No case changed" : "No case in this list"} icon="check">
            <p>{change === "changed" ? "Every case that both runs measured has the same value in both." : "Choose another list above."}</p>
          </Empty>
        </div>
      ) : (
        <div className="compare-list" style={{ height: Math.min(640, 40 + Math.max(1, rows.length) * 58 + 4) }}>
          <DataTable
            label="Cases"
            handle={table}
            columns={COLUMNS}
            rows={rows}
            rowKey={(row) => row.id}
            rowHeight={58}
            total={total}
            compact={{ below: 560, height: 104, row: (row) => <CompactRow row={row} /> }}
            onOpen={(row) => changeParams({ case: row.id })}
            more={{ has: cases.hasNextPage, loading: cases.isFetchingNextPage, load: () => void cases.fetchNextPage() }}
            rowLabel={(row) => `${row.id}, ${CHANGE_WORD[row.change]}`}
          />
        </div>
      )}
      {open !== "" && (
        <Suspense fallback={null}>
          <SideBySide
            id={open}
            row={rows[index] ?? outside.data ?? undefined}
            loading={cases.isPending || outside.isFetching}
            error={outside.error}
            baseline={pair.baseline}
            run={pair.run}
            onMove={(by) => show(index + by)}
            onClose={() => {
              changeParams({ case: undefined });
              requestAnimationFrame(() => table.current?.focusRow(index)); // the row that was open, also if no row had the focus
            }}
          />
        </Suspense>
      )}
    </section>
  );
}

function Counted({ word, count }: { word: string; count: number }) {
  return (
    <>
      {word} <span className="faint num">{format.count(count)}</span>
    </>
  );
}

function CaseId({ id }: { id: string }) {
  return (
    <span className="truncate mono" title={id.slice(0, 300)}>
      <VisibleText text={id.slice(0, 200)} />
    </span>
  );
}

function Difference({ row }: { row: ComparedCase }) {
  const tone = row.change === "better" ? "better" : row.change === "worse" ? "worse" : "";
  return <span className={`num compare-difference ${tone}`}>{differenceText(row.before, row.after)}</span>;
}

function Reasons({ row }: { row: ComparedCase }) {
  return (
    <div className="compare-reasons">
      <Reason word="before" text={row.reason_before ?? ""} />
      <Reason word="after" text={row.reason_after ?? ""} />
    </div>
  );
}

function Reason({ word, text }: { word: string; text: string }) {
  if (!text) return null;
  return (
    <div className="truncate" title={text.slice(0, 1000)}>
      <span className="faint compare-side">{word}</span> <VisibleText text={text.slice(0, 400)} />
    </div>
  );
}

function CompactRow({ row }: { row: ComparedCase }) {
  return (
    <div className="compare-compact">
      <div className="row">
        <CaseId id={row.id} />
        <span className="grow" />
        <Chip tone={CHANGE_TONE[row.change]}>{CHANGE_WORD[row.change]}</Chip>
      </div>
      <div className="num quiet">
        {format.caseValue(row.before)} → {format.caseValue(row.after)} <Difference row={row} />
      </div>
      <Reasons row={row} />
    </div>
  );
}

function sliceOf(text: string, by: string): { by: string; name: string } | undefined {
  const cut = text.indexOf(":");
  const name = text.slice(0, cut);
  return cut > 0 && by.split(",").includes(name) ? { by: name, name: text.slice(cut + 1) } : undefined;
}

async function everyCase(query: Parameters<typeof getComparedCases>[0]): Promise<ComparedCase[]> {
  const found: ComparedCase[] = [];
  while (found.length < MAX_EXPORT) {
    const page = await getComparedCases(query, found.length, 200);
    found.push(...page.cases);
    if (page.cases.length === 0 || found.length >= page.total) break;
  }
  return found;
}

/** Ask both runs for the case. Null: neither has it. */
async function findCase(id: string, baseline: string, run: string, metric: string, signal: AbortSignal): Promise<OpenCase | null> {
  const [before, after] = await Promise.all([baseline, run].map((one) => rowOf(one, id, signal)));
  return caseOf(id, before, after, metric);
}

async function rowOf(run: string, id: string, signal: AbortSignal): Promise<CaseRow | undefined> {
  return (await queryCases(run, { filter: { caseId: [id] }, include: ["preview"], limit: 1 }, signal)).cases[0];
}

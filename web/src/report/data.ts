/** The data that `assay report` put into this document: answers of the REST API. */
import { decompress } from "fzstd";
import type { CaseDetail, CaseRow, CasesAnswer, Overview, RunSlice } from "~/api/cases";
import type { ComparedCases, ComparisonView } from "~/api/comparison";

export interface ReportRun {
  overview: Overview;
  rows: CaseRow[];
  total: number;
  counts: CasesAnswer["counts"]; // of all rows
  effective?: CasesAnswer["effective"];
  details: Record<string, CaseDetail>;
  slices: RunSlice[];
}

export interface Report {
  version: string;
  createdAt: string;
  redacted: boolean;
  limit: number;
  runs: ReportRun[];
  comparison: { view: ComparisonView; cases: Record<string, Record<string, ComparedCases>> } | null;
}

/** The data of this document: JSON, as a frame of zstd in base64. */
export function readReport(): Report | null {
  try {
    return unpack(document.getElementById("report")?.textContent ?? "") as Report;
  } catch {
    return null; // the template, without data
  }
}

export function unpack(text: string): unknown {
  const octets = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(decompress(octets)));
}

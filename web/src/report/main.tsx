import "~/ui/base.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { answerFrom } from "~/api/client";
import { navigate } from "~/state/address";
import { applyTheme } from "~/state/theme";
import { answersOf } from "./answers";
import { readReport } from "./data";
import { compareAddress, ReportApp, runAddress } from "./ReportApp";

applyTheme();
const report = readReport();
const root = document.getElementById("root");
if (report && root) {
  answerFrom({
    answer: answersOf(report),
    runs: report.runs.map(({ overview }) => overview.run.runId),
  });
  if (window.location.hash === "") navigate(report.comparison ? compareAddress(report) : runAddress(report.runs[0]?.overview.run.runId ?? ""), { replace: true });
  const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity, retry: false, networkMode: "always" } } });
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <ReportApp report={report} />
      </QueryClientProvider>
    </StrictMode>,
  );
}

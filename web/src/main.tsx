import "./ui/base.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api/client";
import { onConnection } from "./api/connection";
import { onSession } from "./api/session";
import { App } from "./app/App";
import { applyTheme } from "./state/theme";

applyTheme();

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (failures, error) => error instanceof ApiError && error.temporary && failures < 30,
      retryDelay: (attempt, error) =>
        Math.max(Math.min(500 * 2 ** attempt, 5_000), error instanceof ApiError ? (error.retryAfter ?? 0) * 1_000 : 0),
      networkMode: "always", // the server is often on this machine
    },
    mutations: { networkMode: "always" },
  },
});
onSession(() => queries.clear()); // what one key may see, another key may not
onConnection((reachable) => {
  if (reachable) void queries.invalidateQueries(); // the server was away: what is shown may be old
});

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}

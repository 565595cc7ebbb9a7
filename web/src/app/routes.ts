/** Every screen: its address, its chunk, and its entry in the navigation. Add a screen here; web/README.md explains how. */
import { type ComponentType, lazy, type LazyExoticComponent } from "react";

/** What a screen gets: the variables of its path. The rest of its state is in the address, see state/address.ts. */
export type ScreenProps = { params: Record<string, string> };

export interface Route {
  path: string;
  screen: LazyExoticComponent<ComponentType<ScreenProps>>;
  title: string;
  /** In the navigation, with a key after `g`. */
  nav?: { label: string; key: string };
}

export const ROUTES: Route[] = [
  {
    path: "/runs",
    title: "Runs",
    nav: { label: "Runs", key: "r" },
    screen: lazy(() => import("~/screens/runs/RunsScreen")),
  },
  {
    path: "/runs/:id",
    title: "Run",
    screen: lazy(() => import("~/screens/run/RunScreen")),
  },
  {
    path: "/history",
    title: "Over time",
    screen: lazy(() => import("~/screens/history/HistoryScreen")),
  },
  {
    path: "/runs/:id/review",
    title: "Review",
    screen: lazy(() => import("~/screens/review/ReviewScreen")),
  },
  {
    path: "/compare",
    title: "Compare",
    nav: { label: "Compare", key: "c" },
    screen: lazy(() => import("~/screens/compare/CompareScreen")),
  },
  {
    path: "/verify",
    title: "Approvals",
    nav: { label: "Approvals", key: "a" },
    screen: lazy(() => import("~/screens/verify/ApprovalsScreen")),
  },
  {
    path: "/verify/:id",
    title: "Verification",
    screen: lazy(() => import("~/screens/verify/VerifyScreen")),
  },
  {
    path: "/try",
    title: "Try it",
    nav: { label: "Try it", key: "t" },
    screen: lazy(() => import("~/screens/try/TryScreen")),
  },
];

export const HOME = "/runs";

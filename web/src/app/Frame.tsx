import "./app.css";
import { Component, type ReactNode, Suspense, useEffect, useRef, useState } from "react";
import { useQuery } from "@tanstack/react-query";
import { useReachable } from "~/api/connection";
import { countWaitingRuns } from "~/api/decisions";
import { endSession, useIdentity } from "~/api/identity";
import { formatAddress, matchPath, navigate, useAddress } from "~/state/address";
import { useKeys } from "~/state/keyboard";
import { setTheme, type Theme, useTheme } from "~/state/theme";
import { Button, Empty, ErrorState, Icon, Loading, Menu } from "~/ui";
import { count } from "~/ui/format";
import { Help } from "./Help";
import icon from "./icon.svg";
import { Palette } from "./Palette";
import { HOME, ROUTES } from "./routes";

const THEMES: [Theme, string][] = [
  ["system", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
];

/** The frame of every screen: navigation, command keys, help, theme, account. */
export function Frame() {
  const address = useAddress();
  const identity = useIdentity();
  const theme = useTheme();
  const main = useRef<HTMLElement>(null);
  const [open, setOpen] = useState<"help" | "palette" | null>(null);
  const path = address.path === "/" ? HOME : address.path;
  const found = ROUTES.map((route) => ({ route, params: matchPath(route.path, path) })).find((one) => one.params !== null);
  const section = `/${path.split("/")[1] ?? ""}`;

  useEffect(() => {
    document.title = `${found?.route.title ?? "Not found"} · assay`;
    main.current?.scrollTo(0, 0);
  }, [path, found?.route.title]);

  useKeys("Everywhere", [
    { keys: "?", label: "Show the keyboard shortcuts", run: () => setOpen("help") },
    { keys: "mod+k", label: "Go to a run or a screen", run: () => setOpen("palette"), inText: true },
    ...ROUTES.flatMap((route) =>
      route.nav ? [{ keys: `g ${route.nav.key}`, label: `Go to ${route.nav.label}`, run: () => navigate(formatAddress(route.path)) }] : [],
    ),
  ]);

  return (
    <div className="frame">
      <a
        className="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault(); // the fragment is the address of the page
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <header className="top">
        <a className="brand" href={formatAddress(HOME)}>
          <img src={icon} alt="" />
          assay
        </a>
        <nav className="nav" aria-label="Screens">
          {ROUTES.flatMap((route) =>
            route.nav
              ? [
                  <a key={route.path} href={formatAddress(route.path)} aria-current={section === route.path ? "page" : undefined}>
                    {route.nav.label}
                    {route.path === "/verify" && <Waiting />}
                  </a>,
                ]
              : [],
          )}
        </nav>
        <span className="grow" />
        <Button className="jump" icon="search" title="Go to a run or a screen" onClick={() => setOpen("palette")}>
          <span>Go to…</span>
          <kbd>{/Mac/.test(navigator.userAgent) ? "⌘" : "Ctrl"} K</kbd>
        </Button>
        <Menu
          trigger={<Button kind="plain" icon={theme === "light" ? "sun" : theme === "dark" ? "moon" : "screen"} aria-label="Theme" />}
          entries={THEMES.map(([value, label]) => ({ label, checked: theme === value, onSelect: () => setTheme(value) }))}
        />
        <Button kind="plain" icon="help" aria-label="Keyboard shortcuts and help" onClick={() => setOpen("help")} />
        <Menu
          trigger={<Button kind="plain" icon="user" aria-label="Account" />}
          entries={[
            { heading: true, label: identity ? `Tenant ${identity.tenant}` : "Signed in" },
            { heading: true, label: identity ? `assay ${identity.version}` : "" },
            { line: true, label: "" },
            { label: "REST API", onSelect: () => window.open("v1/docs", "_blank", "noopener") },
            { label: "Sign out", onSelect: () => void endSession(identity?.session ?? false) },
          ]}
        />
      </header>
      <Offline />
      <main ref={main} id="main" className="main" tabIndex={-1}>
        <Guard key={path}>
          <Suspense
            fallback={
              <div className="screen">
                <Loading />
              </div>
            }
          >
            {found?.params ? (
              <found.route.screen params={found.params} />
            ) : (
              <Empty
                title="This page does not exist"
                icon="help"
                actions={
                  <a className="button" href={formatAddress(HOME)}>
                    Go to the runs
                  </a>
                }
              />
            )}
          </Suspense>
        </Guard>
      </main>
      {open === "help" && <Help onClose={() => setOpen(null)} />}
      {open === "palette" && <Palette onClose={() => setOpen(null)} />}
    </div>
  );
}

/** The number of runs that wait for a person, beside the name of their screen. */
function Waiting() {
  const { data } = useQuery({ queryKey: ["waiting", "count"], queryFn: ({ signal }) => countWaitingRuns(signal), refetchInterval: 15_000, retry: false });
  if (!data) return null;
  return (
    <span className="nav-count num">
      {count(data)}
      <span className="sr"> waiting</span>
    </span>
  );
}

/** Says that the server does not answer, while requests are tried again. */
function Offline() {
  const reachable = useReachable();
  return (
    <div role="status">
      {!reachable && (
        <div className="offline">
          <Icon name="refresh" size={12} className="spin" />
          The server does not answer. The page is trying again.
        </div>
      )}
    </div>
  );
}

/** Catches a failure of one screen, so that the frame stays. */
class Guard extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return <ErrorState error={this.state.error} retry={() => this.setState({ error: null })} />;
  }
}

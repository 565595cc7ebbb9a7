/**
 * Dialog and drawer on the browser's own dialog. A modal one holds the focus, closes with Escape and hides the rest.
 * One beside its list leaves the rest in use; its screen has a key to close it.
 */
import "./overlay.css";
import { type ReactNode, useEffect, useId, useLayoutEffect, useRef, useSyncExternalStore } from "react";
import { coverKeys } from "~/state/keyboard";
import { Button } from "./controls";

interface OverlayProps {
  title: ReactNode;
  onClose: () => void;
  children: ReactNode;
  actions?: ReactNode; // beside the title
  foot?: ReactNode;
  wide?: boolean;
}

function Overlay({ kind, title, onClose, children, actions, foot, wide }: OverlayProps & { kind: "dialog" | "drawer" | "beside" }) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  const close = useRef(onClose);
  close.current = onClose;
  useLayoutEffect(() => (kind === "beside" ? undefined : coverKeys()), [kind]); // before the dialog's own keys are declared
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    if (dialog && !dialog.open) kind === "beside" ? dialog.show() : dialog.showModal();
    const first = dialog?.querySelector<HTMLElement>("[data-autofocus]") ?? dialog?.querySelector<HTMLElement>(".overlay-body");
    first?.focus(); // on the body the arrows scroll what is read
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    };
  }, [kind]);
  return (
    <dialog
      ref={element}
      className={`${kind}${wide ? " wide" : ""}`}
      aria-labelledby={id}
      onCancel={(event) => {
        if (event.target !== element.current) return; // of a dialog within this one
        event.preventDefault();
        close.current();
      }}
      onMouseDown={(event) => {
        if (kind !== "beside" && event.target === element.current) close.current(); // on the backdrop
      }}
    >
      <div className="overlay">
        <header className="overlay-head">
          <h2 id={id} className="truncate">
            {title}
          </h2>
          {actions}
          <Button kind="plain" icon="close" aria-label="Close" onClick={onClose} />
        </header>
        <div className="overlay-body" tabIndex={-1}>
          {children}
        </div>
        {foot && <footer className="overlay-foot">{foot}</footer>}
      </div>
    </dialog>
  );
}

/** Show it while it is rendered: `{open && <Dialog title="…" onClose={…}>…</Dialog>}`. */
export function Dialog(props: OverlayProps) {
  return <Overlay kind="dialog" {...props} />;
}

/** A panel at the right edge. On a phone it fills the screen. `beside`: on a wide screen the list stays in use beside it. */
export function Drawer({ beside = false, ...props }: OverlayProps & { beside?: boolean }) {
  const kind = useWide() && beside ? "beside" : "drawer";
  return <Overlay key={kind} kind={kind} {...props} />;
}

const WIDE = "(min-width: 1200px)";

/** Whether a drawer `beside` leaves its list in sight. */
export function isWide(): boolean {
  return window.matchMedia(WIDE).matches;
}

function useWide(): boolean {
  return useSyncExternalStore(
    (changed) => {
      const query = window.matchMedia(WIDE);
      query.addEventListener("change", changed);
      return () => query.removeEventListener("change", changed);
    },
    isWide,
  );
}

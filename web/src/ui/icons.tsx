/** Line icons, 16 × 16. Each is decoration: the text beside it, or the label of its button, says the same. */
const PATHS = {
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM14 14l-3.4-3.4",
  copy: "M5.5 5.5V3.2c0-.7.5-1.2 1.2-1.2h6.1c.7 0 1.2.5 1.2 1.2v6.1c0 .7-.5 1.2-1.2 1.2h-2.3M3.2 5.5h6.1c.7 0 1.2.5 1.2 1.2v6.1c0 .7-.5 1.2-1.2 1.2H3.2c-.7 0-1.2-.5-1.2-1.2V6.7c0-.7.5-1.2 1.2-1.2Z",
  check: "m3 8.5 3.2 3.2L13 4.8",
  close: "m4 4 8 8m0-8-8 8",
  down: "m4 6 4 4 4-4",
  right: "m6 4 4 4-4 4",
  left: "m10 4-4 4 4 4",
  up: "m4 10 4-4 4 4",
  export: "M8 2v8m0 0 3-3m-3 3L5 7M2.5 11.5v1c0 .8.7 1.5 1.5 1.5h8c.8 0 1.5-.7 1.5-1.5v-1",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7",
  moon: "M13.5 9.6A5.8 5.8 0 0 1 6.4 2.5a5.8 5.8 0 1 0 7.1 7.1Z",
  screen: "M2 3.5h12v7.5H2zM6 14h4M8 11v3",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  help: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM6.4 6.3c.2-1 .9-1.5 1.7-1.5 1 0 1.7.6 1.7 1.5 0 1.2-1.7 1.3-1.7 2.5M8 11.2h.01",
  refresh: "M13.5 8a5.5 5.5 0 1 1-1.7-4M13.5 2v3h-3",
  filter: "M2 3.5h12M4.5 8h7M6.8 12.5h2.4",
  columns: "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
  link: "M6.7 9.3a2.6 2.6 0 0 0 3.7 0l2.1-2.1a2.6 2.6 0 0 0-3.7-3.7l-.8.8M9.3 6.7a2.6 2.6 0 0 0-3.7 0L3.5 8.8a2.6 2.6 0 0 0 3.7 3.7l.8-.8",
  compare: "M5 2.5v11m0 0-2.5-2.5M5 13.5 7.5 11M11 13.5v-11m0 0L8.5 5M11 2.5 13.5 5",
  up2: "M8 13V3m0 0L4 7m4-4 4 4",
  clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 4.8V8l2.2 1.6",
  user: "M8 8a2.7 2.7 0 1 0 0-5.4A2.7 2.7 0 0 0 8 8ZM2.8 13.6c.7-2.3 2.6-3.4 5.2-3.4s4.5 1.1 5.2 3.4",
  plus: "M8 3v10M3 8h10",
  thumbUp: "M5 7.2 7.6 2c.9 0 1.6.7 1.6 1.6v2.6h3.3c.8 0 1.4.7 1.3 1.5l-.7 4.6c-.1.7-.7 1.2-1.3 1.2H5m0-6.3v6.3m0-6.3H2.5v6.3H5",
  thumbDown: "M11 8.8 8.4 14c-.9 0-1.6-.7-1.6-1.6V9.8H3.5c-.8 0-1.4-.7-1.3-1.5l.7-4.6c.1-.7.7-1.2 1.3-1.2H11m0 6.3V2.5m0 6.3h2.5V2.5H11",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16, className }: { name: IconName; size?: number; className?: string }) {
  return (
    <svg
      className={className}
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth={name === "more" ? 2 : 1.5}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

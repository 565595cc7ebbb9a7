import { useId, useRef } from "react";
import { VisibleText } from "~/ui";
import type { LineProblem } from "./draft";

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  problems: LineProblem[];
  rows: number;
  wrap?: boolean;
  placeholder?: string;
}

/** A text field with numbered lines. A line with a problem is marked, and the problem is written below it. */
export function CodeArea({ label, value, onChange, problems, rows, wrap, placeholder }: Props) {
  const id = useId();
  const gutter = useRef<HTMLDivElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const lines = value.split("\n").length;
  const wrong = new Set(problems.map((problem) => problem.line));
  const goTo = (line: number) => {
    const start = value.split("\n").slice(0, Math.max(0, line - 1)).join("\n").length + (line > 1 ? 1 : 0);
    area.current?.focus();
    area.current?.setSelectionRange(start, start + (value.split("\n")[line - 1]?.length ?? 0));
  };
  return (
    <div className="code-field">
      <div className={`code-area${problems.length > 0 ? " wrong" : ""}`}>
        {!wrap && (
          <div className="code-gutter" ref={gutter} aria-hidden="true">
            {Array.from({ length: Math.min(lines, 5_000) }, (_, index) => (
              <div key={index} className={wrong.has(index + 1) ? "wrong" : ""}>
                {index + 1}
              </div>
            ))}
          </div>
        )}
        <textarea
          ref={area}
          aria-label={label}
          aria-invalid={problems.length > 0}
          aria-describedby={problems.length > 0 ? id : undefined}
          rows={rows}
          value={value}
          wrap={wrap ? "soft" : "off"}
          spellCheck={false}
          autoCapitalize="off"
          autoComplete="off"
          dir="auto"
          placeholder={placeholder}
          onChange={(event) => onChange(event.target.value)}
          onScroll={(event) => gutter.current?.scrollTo(0, event.currentTarget.scrollTop)}
        />
      </div>
      <div role="status" id={id}>
        <ul className="code-problems">
          {problems.map((problem, index) => (
            <li key={index}>
              {problem.line > 0 && !wrap && (
                <button type="button" onClick={() => goTo(problem.line)}>
                  line {problem.line}
                </button>
              )}
              <VisibleText text={problem.message} />
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}

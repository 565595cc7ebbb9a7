import "./charts.css";
import { useLayoutEffect, useRef, useState } from "react";
import { Button, Dialog, download, Menu, toCsv } from "~/ui";
import type { Chart, Ink, Mark } from "./marks";

interface Props {
  title: string;
  /** What the chart shows, for a reader who does not see it. */
  summary: string;
  name: string; // of an exported file
  draw: (width: number, height: number) => Chart;
  /** The same numbers as a table. */
  table: { header: string[]; rows: (string | number)[][] };
  onOpen?: (id: string) => void;
}

/** A chart with its table, and export as PNG or CSV. */
export function ChartView({ title, summary, name, draw, table, onOpen }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(480);
  const [open, setOpen] = useState(false);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => setWidth(Math.max(260, element.clientWidth));
    measure(); // before it is drawn: the height follows from the width
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const chart = draw(width, Math.round(Math.min(300, Math.max(220, width * 0.56))));
  const columns = table.header.map((header, index) => ({ name: header, value: (row: (string | number)[]) => row[index] }));
  return (
    <figure className="card chart">
      <figcaption className="chart-head">
        <h2>{title}</h2>
        <span className="grow" />
        <Menu
          trigger={<Button kind="plain" size="small" icon="more" aria-label={`${title}: table and export`} />}
          entries={[
            { label: "Show as a table", onSelect: () => setOpen(true) },
            { line: true, label: "" },
            { label: "PNG", onSelect: () => void png(chart).then((blob) => download(`${name}.png`, blob)) },
            { label: "CSV", onSelect: () => download(`${name}.csv`, toCsv(columns, table.rows), "text/csv") },
          ]}
        />
      </figcaption>
      <div ref={box}>
        <svg className="chart-drawing" width={chart.width} height={chart.height} viewBox={`0 0 ${chart.width} ${chart.height}`} role="img" aria-label={summary}>
          {chart.marks.map((mark, index) => (
            <MarkView key={index} mark={mark} onOpen={onOpen} />
          ))}
        </svg>
      </div>
      {open && (
        <Dialog title={title} onClose={() => setOpen(false)}>
          <div className="chart-table" tabIndex={0} role="region" aria-label={title}>
            <table>
              <thead>
                <tr>
                  {table.header.map((header) => (
                    <th key={header} scope="col">
                      {header}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {table.rows.map((row, index) => (
                  <tr key={index}>
                    {row.map((cell, at) => (
                      <td key={at} className="num">
                        {cell}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Dialog>
      )}
    </figure>
  );
}

function MarkView({ mark, onOpen }: { mark: Mark; onOpen?: (id: string) => void }) {
  switch (mark.kind) {
    case "line":
      return <line className={`ink-${mark.ink}`} x1={mark.x1} y1={mark.y1} x2={mark.x2} y2={mark.y2} strokeDasharray={mark.dashed ? "3 4" : undefined} />;
    case "path":
      return <path className={`ink-${mark.ink}${mark.filled ? " filled" : ""}`} d={mark.d} />;
    case "rect":
      return (
        <rect className={`ink-${mark.ink}`} x={mark.x} y={mark.y} width={mark.width} height={mark.height} rx="1.5">
          <title>{mark.title}</title>
        </rect>
      );
    case "circle": {
      const { id } = mark;
      return (
        <circle className={`ink-${mark.ink}${id && onOpen ? " opens" : ""}`} cx={mark.x} cy={mark.y} r={mark.r} onClick={id && onOpen ? () => onOpen(id) : undefined}>
          <title>{mark.title}</title>
        </circle>
      );
    }
    case "text":
      return (
        <text
          className={`ink-${mark.ink}`}
          x={mark.x}
          y={mark.y}
          textAnchor={mark.anchor}
          transform={mark.turned ? `rotate(-90 ${mark.x} ${mark.y})` : undefined}
        >
          {mark.text}
        </text>
      );
  }
}

const TOKENS: Record<Ink, string> = { text: "--text-2", faint: "--text-3", line: "--line", better: "--pass", worse: "--fail", same: "--mute", accent: "--accent", band: "--accent" };
const BAND = 0.16; // as in the style sheet
const SCALE = 2; // pixels of the PNG for one of the page

/** The colour that a token has now: a canvas does not know `light-dark()`. */
function colourOf(token: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

async function png(chart: Chart): Promise<Blob> {
  const canvas = document.createElement("canvas");
  canvas.width = chart.width * SCALE;
  canvas.height = chart.height * SCALE;
  const ink = canvas.getContext("2d");
  if (!ink) throw new Error("This browser cannot draw a PNG.");
  const colours = Object.fromEntries(Object.entries(TOKENS).map(([name, token]) => [name, colourOf(token)])) as Record<Ink, string>;
  ink.scale(SCALE, SCALE);
  ink.fillStyle = colourOf("--surface");
  ink.fillRect(0, 0, chart.width, chart.height);
  ink.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  for (const mark of chart.marks) draw(ink, mark, colours[mark.ink]);
  return await new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("This browser cannot draw a PNG."))), "image/png");
  });
}

function draw(ink: CanvasRenderingContext2D, mark: Mark, colour: string): void {
  ink.strokeStyle = ink.fillStyle = colour;
  ink.globalAlpha = 1;
  if (mark.kind === "line") {
    ink.setLineDash(mark.dashed ? [3, 4] : []);
    ink.beginPath();
    ink.moveTo(mark.x1, mark.y1);
    ink.lineTo(mark.x2, mark.y2);
    ink.stroke();
  } else if (mark.kind === "path") {
    ink.setLineDash([]);
    ink.globalAlpha = mark.filled ? BAND : 1;
    if (mark.filled) ink.fill(new Path2D(mark.d));
    else ink.stroke(new Path2D(mark.d));
    ink.globalAlpha = 1;
  } else if (mark.kind === "rect") {
    ink.fillRect(mark.x, mark.y, mark.width, mark.height);
  } else if (mark.kind === "circle") {
    ink.setLineDash([]);
    ink.beginPath();
    ink.arc(mark.x, mark.y, mark.r, 0, 2 * Math.PI);
    ink.globalAlpha = 0.35;
    ink.fill();
    ink.globalAlpha = 1;
    ink.stroke();
  } else {
    ink.save();
    ink.translate(mark.x, mark.y);
    if (mark.turned) ink.rotate(-Math.PI / 2);
    ink.textAlign = mark.anchor === "middle" ? "center" : mark.anchor;
    ink.fillText(mark.text, 0, 0);
    ink.restore();
  }
}

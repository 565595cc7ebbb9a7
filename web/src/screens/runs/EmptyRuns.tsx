import { formatAddress } from "~/state/address";
import { Button, CommandLine, Empty } from "~/ui";

const REQUEST = JSON.stringify({
  test_cases: [{ id: "france", input: "Capital of France?" }],
  outputs: [{ value: "Paris" }],
  checks: [{ type: "contains", arguments: { text: "$.output.value", phrases: ["Paris"] } }],
});

/** There are no runs at all: how to make the first one. */
export function NoRuns() {
  const server = `${window.location.origin}${window.location.pathname}`;
  return (
    <Empty
      title="No runs yet"
      icon="plus"
      actions={
        <a className="button primary" href={formatAddress("/try")}>
          Try checks in the browser
        </a>
      }
    >
      <p>A run appears here as soon as it starts. To create the first run, copy one of these commands.</p>
      <p className="runs-label">On the machine of this server, with the assay command</p>
      <CommandLine text={`echo '${REQUEST}' | assay evaluate - --save`} />
      <p className="runs-label">Over HTTP, with an API key in ASSAY_API_KEY</p>
      <CommandLine text={`curl -H "X-API-Key: $ASSAY_API_KEY" -H "Content-Type: application/json" -d '${REQUEST}' ${server}v1/evaluate`} />
    </Empty>
  );
}

/** There are runs, but the filter leaves none. */
export function NoMatch({ clear, looked }: { clear: () => void; looked: string }) {
  return (
    <Empty title="No run fits" icon="filter" actions={<Button onClick={clear}>Clear the filters</Button>}>
      <p>{looked || "No run matches all filters."}</p>
    </Empty>
  );
}

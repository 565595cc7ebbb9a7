// @vitest-environment happy-dom
import { render } from "@testing-library/react";
import { expect, test } from "vitest";
import "~/testing/dom";
import { ContentView } from "./ContentView";

const SENT = "# Judge\n\nIs `__init__` **kind**? \\d+ &lt;b&gt;";

test.each([SENT, "**short**", "plain \\* text"])("a prompt is shown with every sign that was sent: %j", (text) => {
  const { container } = render(<ContentView value={text} label="Argument prompt" exact />);
  expect(container.textContent).toContain(text);
});

/** A page for tests of components: happy-dom has no layout, so every box has the size that a test gives it. */
import { cleanup, configure } from "@testing-library/react";
import { afterEach, beforeEach } from "vitest";

const size = { width: 1_200, height: 400 };

/** Every element is this large from now on. */
export function setSize(width: number, height = 400): void {
  Object.assign(size, { width, height });
}

configure({ asyncUtilTimeout: 120_000 }); // what a test waits for comes when the machine has time for it

for (const [name, of] of [["clientWidth", "width"], ["offsetWidth", "width"], ["clientHeight", "height"], ["offsetHeight", "height"]] as const) {
  Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => size[of] });
}

beforeEach(() => {
  setSize(1_200);
  window.location.hash = "";
});
afterEach(cleanup);

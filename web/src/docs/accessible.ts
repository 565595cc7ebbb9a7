/** Names and places for the keyboard that Swagger UI does not give to its elements. */

import type { Component, Plugin } from "swagger-ui-dist/swagger-ui-es-bundle.js";

/** The path of an operation is the text of its button. A link inside of a button is not reachable for a screen reader. */
export const withoutNestedLinks: Plugin = () => ({
  wrapComponents: {
    DeepLink: (_: Component, { React }) =>
      function DeepLink({ text }) {
        return React.createElement("span", { className: "nostyle" }, text);
      },
  },
});

const REPAIRS: [string, (element: HTMLElement) => void][] = [
  [".close-modal:not([aria-label])", (element) => element.setAttribute("aria-label", "Close")],
  [".auth-btn-wrapper .authorize[aria-label]", (element) => element.removeAttribute("aria-label")],
  ["textarea.body-param__text:not([aria-label])", (element) => element.setAttribute("aria-label", "Request body")],
  [".parameters-col_description :is(select, input, textarea):not([aria-label])", (element) => element.setAttribute("aria-label", parameterOf(element))],
  [".body-param-options select:not([aria-label]), .content-type:not([aria-label])", (element) => element.setAttribute("aria-label", "Media type")],
  ["pre.microlight:not([tabindex])", (element) => element.setAttribute("tabindex", "0")],
];

function parameterOf(element: HTMLElement): string {
  return element.closest("tr")?.dataset["paramName"] ?? "Value";
}

/** Repair the elements under `root` now and whenever it changes, at most once a frame. */
export function repair(root: HTMLElement): void {
  let waits = false;
  const work = () => {
    waits = false;
    for (const [selector, mend] of REPAIRS) root.querySelectorAll<HTMLElement>(selector).forEach(mend);
  };
  new MutationObserver(() => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(work);
  }).observe(root, { childList: true, subtree: true });
}

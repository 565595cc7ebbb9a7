/** Texts of attackers, and what the page may make of them. */
import { expect } from "vitest";

export const HOSTILE: Record<string, string> = {
  html: `<script>window.hacked = 1</script>"><img src=x onerror="window.hacked = 1"><svg onload="window.hacked = 1">`,
  frame: `<iframe srcdoc="<script>1</script>"></iframe><object data="javascript:alert(1)"></object><embed src=x>`,
  link: `[click](javascript:alert(1)) **b** ![c](https://example.com/steal) <a href="javascript:alert(1)" onclick="alert(1)">d</a>`,
  markdown: "# a\n\n| <b>x</b> | [y](javascript:alert(1)) |\n|---|---|\n\n```html\n<script>1</script>\n```\n\n[a]: javascript:alert(1)\n",
  bidi: "pay\u202epal\u2066 and\u200b \u2069",
  page: "data:text/html;base64,PHNjcmlwdD4= javascript:alert(1)",
};

const ACTIVE = "script, iframe, object, embed, link, style, base, meta, form[action], video, audio, a:not([href^='#']), img:not([src^='data:image/'])";
const NAMES = ["aria-label", "title", "alt"]; // attributes that are texts for a reader
const HIDDEN = /[\u202a-\u202e\u2066-\u2069\u200b]/;

/** Nothing of what is drawn is active, a canary is in texts only, and no invisible character is in a text. */
export function expectOnlyText(root: ParentNode): void {
  expect([...root.querySelectorAll(ACTIVE)].map((element) => element.outerHTML)).toEqual([]);
  const attributes = [...root.querySelectorAll("*")].flatMap((element) => [...element.attributes]);
  expect(attributes.filter(isHostile).map(({ name, value }) => `${name}=${value}`)).toEqual([]);
  expect(document.body.textContent).not.toMatch(HIDDEN);
  expect((window as { hacked?: unknown }).hacked).toBeUndefined();
}

function isHostile({ name, value }: Attr): boolean {
  if (/^(on.*|srcdoc|action|formaction)$/i.test(name) || HIDDEN.test(value)) return true;
  return !NAMES.includes(name) && /canary|javascript:/i.test(value);
}

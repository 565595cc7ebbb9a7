import { expect, test } from "vitest";

import { storageOf } from "./storage";

const refused = () => {
  throw new DOMException("The document is sandboxed", "SecurityError");
};
const full = () => ({ getItem: () => null, setItem: refused, removeItem: () => undefined }) as unknown as Storage;

test.each([
  ["a storage that is refused", refused],
  ["a full storage", full],
])("%s keeps values in memory", (_, find) => {
  const values = storageOf(find);
  expect(values.get("a")).toBeNull();
  values.set("a", "1");
  expect(values.get("a")).toBe("1");
  values.remove("a");
  expect(values.get("a")).toBeNull();
});

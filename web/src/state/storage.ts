/** The storage of the browser. A sandboxed preview refuses it, and a full one does not write: then values stay in memory until the page is left. */

interface Values {
  get: (name: string) => string | null;
  set: (name: string, value: string) => void;
  remove: (name: string) => void;
}

/** `find` may throw: to ask for the storage is already refused in a sandbox. */
export function storageOf(find: () => Storage): Values {
  const memory = new Map<string, string>();
  const attempt = <T>(act: (storage: Storage) => T, otherwise: T): T => {
    try {
      return act(find());
    } catch {
      return otherwise;
    }
  };
  return {
    get: (name) => memory.get(name) ?? attempt((storage) => storage.getItem(name), null),
    set: (name, value) => {
      const stored = attempt((storage) => (storage.setItem(name, value), true), false);
      if (stored) memory.delete(name);
      else memory.set(name, value);
    },
    remove: (name) => {
      memory.delete(name);
      attempt((storage) => storage.removeItem(name), undefined);
    },
  };
}

/** Of this tab. */
export const tabStorage = storageOf(() => sessionStorage);

/** Of this browser. */
export const browserStorage = storageOf(() => localStorage);

/**
 * Calls at once, then at most once in `ms`, and not before the previous call has ended: a server that answers slowly is not asked again
 * in the middle of its answer, which would be lost. The last call is never lost.
 */
export function throttle(work: () => Promise<unknown>, ms: number): { call: () => void; stop: () => void } {
  let busy = false;
  let wanted = false;
  let stopped = false;
  const run = async () => {
    busy = true;
    while (wanted && !stopped) {
      wanted = false;
      await Promise.allSettled([work(), new Promise((resolve) => setTimeout(resolve, ms))]);
    }
    busy = false;
  };
  return {
    call: () => {
      wanted = true;
      if (!busy) void run();
    },
    stop: () => {
      stopped = true;
    },
  };
}

type Slot = { waiting?: PromiseWithResolvers<boolean> };

/**
 * Runs the tasks of one key one after another, and of those that wait only the last: each is about the same thing, as it
 * is by then. Resolves to `undefined` for a task that was passed over.
 */
export function latestOnly(): <Result>(key: string, task: () => Promise<Result>) => Promise<Result | undefined> {
  const slots = new Map<string, Slot>();

  return async (key, task) => {
    let slot = slots.get(key);
    if (slot !== undefined) {
      slot.waiting?.resolve(false);
      slot.waiting = Promise.withResolvers();
      if (!(await slot.waiting.promise)) return undefined;
    } else {
      slot = {};
      slots.set(key, slot);
    }
    try {
      return await task();
    } finally {
      const { waiting } = slot;
      delete slot.waiting;
      if (waiting === undefined) slots.delete(key);
      else waiting.resolve(true);
    }
  };
}

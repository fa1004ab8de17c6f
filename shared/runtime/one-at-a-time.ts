/** Runs the tasks of one key one after another, in the order of the calls: two of them would only get in each other's way. */
export function oneAtATime(): <Result>(key: string, task: () => Promise<Result>) => Promise<Result> {
  const last = new Map<string, Promise<unknown>>();

  return async (key, task) => {
    const before = last.get(key);
    const done = before === undefined ? task() : before.then(task, task);
    last.set(key, done);
    try {
      return await done;
    } finally {
      if (last.get(key) === done) last.delete(key);
    }
  };
}

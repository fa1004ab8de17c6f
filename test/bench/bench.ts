/** `npm run bench -- NAME [--quick]`: measures on this machine, prints a table and, as its last line, one JSON object. */
const BENCHES: Readonly<Record<string, () => Promise<{ run: (isQuick: boolean) => Promise<object> }>>> = {
  gateway: () => import('./gateway/gateway-bench.ts'),
};

const [name = '', ...flags] = process.argv.slice(2);
const load = BENCHES[name];
if (load === undefined) {
  process.stderr.write(`bench ${JSON.stringify(name)}: want one of ${Object.keys(BENCHES).join(', ')}\n`);
  process.exit(2);
}
const { run } = await load();
const results = await run(flags.includes('--quick'));
process.stdout.write(`${JSON.stringify(results)}\n`);

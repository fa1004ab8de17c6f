import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { dashboard } from './dashboard.ts';

/** `node infra/dashboards/generate.ts` writes the file that Grafana imports and the chart holds. */
await writeFile(join(import.meta.dirname, 'wg-keepalive.json'), `${JSON.stringify(dashboard(), undefined, 2)}\n`);

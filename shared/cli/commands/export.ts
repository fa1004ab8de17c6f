import type { Run } from '../command-table.ts';
import { StartError } from '../errors.ts';

export const run: Run<'export'> = async () => {
  throw new StartError('its parts are not wired yet');
};

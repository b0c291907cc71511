// The HEALTHCHECK of the image. Exits with 0 if the service answers 200 at /health/live, or with the argument `ready` at
// /health/ready. Otherwise prints why, and exits with 1.
import { once } from 'node:events';
import { get } from 'node:http';
import { z } from 'zod';
import { localUrl, SERVED_VARIABLES, servedAddress } from './dist/configuration/served-address.js';
import { parseVariables, readVariables } from './dist/configuration/variables.js';

const PATIENCE_MS = 5_000;

try {
  const variables = parseVariables(z.object(SERVED_VARIABLES), readVariables());
  const url = `${localUrl(servedAddress(variables), variables.PORT)}/health/${process.argv[2] ?? 'live'}`;
  // Not `fetch`, which refuses some ports.
  const [{ statusCode }] = await once(get(url, { agent: false, signal: AbortSignal.timeout(PATIENCE_MS) }), 'response');
  if (statusCode !== 200) throw new Error(`${url} answered ${statusCode}`);
  process.exit(0);
} catch (error) {
  console.error(error.message);
  process.exit(1);
}

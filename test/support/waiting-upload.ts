import { setImmediate as nextIteration } from 'node:timers/promises';
import { expect } from 'vitest';
import type { RunningService } from './service.js';

const SMALL_FILE = '/ingestHistoricalLoadData/upload_historical?customer_id=acme&filename=small.csv&manufacturer=m';
const LONGEST_WAIT_MS = 30_000;

/**
 * Expects that an upload has to wait until `letGo` is called, and that a small upload is answered meanwhile.
 *
 * @param hasAsked whether the waiting upload has asked for the resource that it must wait for.
 * @returns the answer to the waiting upload.
 */
export async function expectWait(
  { url }: RunningService,
  upload: Promise<Response>,
  hasAsked: () => boolean,
  letGo: () => void,
): Promise<Response> {
  const seen = { isAnswered: false };
  const answer = upload.finally(() => { seen.isAnswered = true; });
  try {
    while (!hasAsked() && !seen.isAnswered) await nextIteration();
    const signal = AbortSignal.timeout(LONGEST_WAIT_MS);
    const small = await fetch(url + SMALL_FILE, { method: 'POST', body: 'a,b', headers: { 'Content-Type': 'text/csv' }, signal });
    expect({ status: small.status, ...seen }).toEqual({ status: 200, isAnswered: false });
  } finally {
    letGo();
  }
  return answer;
}

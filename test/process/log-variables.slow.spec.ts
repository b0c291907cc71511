import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { undocumentedMembers } from '../support/log-page.js';
import { Workspace } from '../support/process.js';

const UPLOAD = '/ingestNowcastLoadData/upload_nowcast';

describe('LOG_SAMPLE, LOG_CUSTOMERS and LOG_SUBJECTS', () => {
  let workspace: Workspace;
  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  it('one in two successful requests is logged, with its customer, and each that is refused', async () => {
    const { url, program } = await workspace.start({ LOG_SAMPLE: '2', LOG_CUSTOMERS: 'true', LOG_SUBJECTS: 'true' });
    const send = async (id: string, query: string) => (await fetch(`${url}${UPLOAD}?${query}`, { method: 'POST', headers: { 'x-request-id': id } })).status;
    for (let number = 1; number <= 4; number++) {
      expect(await send(`stored-${number}`, `customer_id=c${number}&filename=f&manufacturer=m`)).toBe(200);
      expect(await send(`refused-${number}`, '')).toBe(400);
    }
    expect(await program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    const logged = program.lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(logged).toContainEqual(expect.objectContaining({ msg: 'stopping', signal: 'SIGTERM' }));
    expect(await undocumentedMembers(logged)).toEqual([]);
    const lines = logged.filter(({ msg }) => msg === 'request');
    const refused = lines.filter(({ status }) => status === 400);
    expect(refused.map(({ requestId }) => requestId)).toEqual(['refused-1', 'refused-2', 'refused-3', 'refused-4']);
    const stored = lines.filter(({ status }) => status === 200);
    expect(stored.map(({ requestId, customerId }) => [requestId, customerId])).toEqual([['stored-1', 'c1'], ['stored-3', 'c3']]);
  });
});

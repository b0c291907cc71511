import { expect, it } from 'vitest';
import { inVirtualTime } from '../../../../../test/support/virtual-time.js';
import { startAuth0StandIn } from '../../../../testing/index.js';
import { Auth0IdentityProvider } from './auth0.identity-provider.adapter.js';

it('lists the users of an export of more than 64 MiB', async () => {
  const tenant = await startAuth0StandIn();
  const provider = new Auth0IdentityProvider({ url: tenant.domain, ...tenant.service, connection: 'Username-Password-Authentication', audience: 'load-data-api' });
  try {
    tenant.loadUsers(1_001, { createdAt: () => 0 });
    const line = { user_id: 'auth0|', created_at: '2024-01-01T00:00:00.000Z', updated_at: '2024-01-01T00:00:00.000Z', padding: 'x'.repeat(1_000_000) };
    const lines = Array.from({ length: 70 }, (_, index) => JSON.stringify({ ...line, user_id: `auth0|${index}` }));
    tenant.fail(/GET \/exports\//, { kind: 'answer', status: 200, body: lines.join('\n') });
    let listed = 0;
    await inVirtualTime(async () => {
      for await (const { length } of provider.listUsers({ signal: new AbortController().signal })) listed += length;
    });
    expect(listed).toBe(1_000 + lines.length);
  } finally {
    await provider.onApplicationShutdown();
    await tenant.stop();
  }
});

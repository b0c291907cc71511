import { expect, it } from 'vitest';
import { InMemoryFileStorage } from '../../testing/index.js';
import { UploadLoadData } from './upload-load-data.use-case.js';

it('reports any error of a store as a failure of the store', async () => {
  const cause = new Error('An error of a team\'s own store.');
  const storage = new (class extends InMemoryFileStorage {
    override store(): Promise<never> {
      return Promise.reject(cause);
    }
  })();
  const command = { kind: 'historical', customerId: 'a', filename: 'b', manufacturer: 'c', idempotencyKey: null, file: null, additionalData: () => null } as const;
  await expect(new UploadLoadData(storage).execute(command)).rejects.toMatchObject({ kind: 'storage-failure', cause });
});

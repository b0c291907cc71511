import { LocalDiskFileStorage } from '../../../dist/ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';

/**
 * Runs the service's compiled modules with another store, so that everything but the store is the same.
 *
 * @param {(directory: string) => Promise<{ store(draft: object): Promise<object> }>} openStore opens the store in
 * DATA_DIR.
 */
export async function serveWithStore(openStore) {
  let opened = false;
  LocalDiskFileStorage.open = async ({ directory }) => {
    opened = true;
    const store = await openStore(directory);
    return Object.assign(store, { checkHealth: async () => undefined });
  };
  await import('../../support/compiled-service.mjs');
  if (!opened) throw new Error('The service did not open its store with LocalDiskFileStorage.open().');
}

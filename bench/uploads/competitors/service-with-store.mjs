import { LocalDiskFileStorage } from '../../../dist/ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';

/**
 * Runs the service's own main.js, so that all but the store is the same, with another store in the local disk's place.
 *
 * @param {(directory: string) => Promise<{ store(draft: object): Promise<object> }>} openStore is given DATA_DIR.
 */
export async function serveWithStore(openStore) {
  let opened = false;
  LocalDiskFileStorage.open = async ({ directory }) => {
    opened = true;
    const store = await openStore(directory);
    return Object.assign(store, { checkHealth: async () => undefined });
  };
  await import('../../../dist/main.js');
  if (!opened) throw new Error('The service did not open its store by LocalDiskFileStorage.open().');
}

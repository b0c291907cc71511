// The service with another store, which stores nothing. It shows the upper limit of the rate, which the rest of the
// service sets.
import { serveWithStore } from './service-with-store.mjs';

const NO_DIGEST = '0'.repeat(64);

await serveWithStore(async () => ({
  async store({ content, conclude }) {
    if (!content) return conclude(null);
    let size = 0;
    for await (const chunk of content.bytes) size += chunk.length;
    return conclude({ size, sha256: NO_DIGEST });
  },
}));

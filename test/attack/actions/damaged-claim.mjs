import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { claimKey } from '../../../dist/ingestion/adapters/out/object-storage/keys.js';
import { idempotencyScope } from '../../../dist/ingestion/domain/idempotency.js';

const NOISE_BYTES = 200;

const DAMAGES = {
  'random bytes over': () => randomBytes(NOISE_BYTES),
  'truncation of': (bytes) => bytes.subarray(0, bytes.length / 2),
  'nothing left of': () => Buffer.alloc(0),
};

/** Damages the object of an idempotency key. A replica can rebuild the object when the key is used again. */
export default {
  name: 'damaged-claim',
  isExclusive: true,
  plan: (random) => ({ damage: random.pick(Object.keys(DAMAGES)) }),
  title: ({ damage }) => `${damage} the object of a key`,
  async run(world, { damage }, { random, replica }) {
    const { server, bucket, prefix, directory } = world.bucket;
    await replica().upload(world.keyed(world.someUpload(random)));
    for (const upload of world.model.held(random, 1)) {
      const { kind, customerId, filename: idempotencyKey } = upload.sent;
      const claim = claimKey(idempotencyScope({ kind, customerId, idempotencyKey }));
      const damaged = DAMAGES[damage](await readFile(join(directory, claim)));
      await server.replaceObjects(bucket, [[`${prefix}/${claim}`, damaged]]);
      await Promise.all([replica().upload(upload), replica().upload(upload)]);
    }
  },
};

import { bucketContract } from '../../../../testing/bucket.contract.js';
import { InMemoryBucket } from '../../../../testing/in-memory.bucket.js';
import { ObservedBucket } from './observed-bucket.js';

bucketContract('in memory, observed', () => {
  const bucket = new InMemoryBucket();
  const observed = (inner: InMemoryBucket) => new ObservedBucket(inner, (_operation, call) => call());
  return Promise.resolve({
    bucket: observed(bucket),
    neighbour: new InMemoryBucket(),
    parts: (key) => Promise.resolve(bucket.parts(key)),
    leaveParts: (key) => {
      bucket.leaveParts(key);
      return Promise.resolve();
    },
    withClockAhead: (aheadMs) => Promise.resolve(observed(Object.assign(bucket.another(), { aheadMs }))),
    tearDown: () => Promise.resolve(),
  });
});

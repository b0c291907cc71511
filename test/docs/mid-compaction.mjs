// Changes the bucket that the environment names, so that it is in the middle of a compaction, as readers may find it:
// one segment was copied and the original isn't removed yet, and there is an empty segment. With `--completed`, the
// original is removed.
import { openBucket } from '../../dist/app/bucket.factory.js';
import { uuidAt } from '../../dist/common/uuid.js';
import { loadEnvironment } from '../../dist/configuration/service.js';

const { fileStorage, maxUploadBytes } = loadEnvironment();
const bucket = await openBucket(fileStorage, maxUploadBytes);
for await (const { key } of bucket.list('uploads/')) {
  const { bytes } = await bucket.read(key);
  const another = () => `${key.slice(0, key.lastIndexOf('/'))}/${uuidAt(new Date())}.ndjson`;
  await bucket.create(another(), bytes);
  await bucket.create(another(), Buffer.alloc(0));
  if (process.argv.includes('--completed')) await bucket.remove([key]);
  break;
}
bucket.close();

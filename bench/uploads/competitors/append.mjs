// The service with another store, which appends each index line to one file and syncs this file, one upload after
// another.
import { mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { indexLine } from '../../../dist/ingestion/domain/layout.js';
import { serveWithStore } from './service-with-store.mjs';

await serveWithStore(async (directory) => {
  await mkdir(directory, { recursive: true });
  const file = await open(join(directory, 'lines.ndjson'), 'a');
  const append = async (line) => {
    await file.write(line);
    await file.datasync();
  };
  let last = Promise.resolve();
  return {
    async store({ conclude }) {
      const upload = await conclude(null);
      last = last.then(() => append(`${indexLine(upload)}\n`));
      await last;
      return upload;
    },
  };
});

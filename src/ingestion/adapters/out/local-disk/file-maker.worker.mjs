import { closeSync, openSync, writeSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';

/** @param {{ path: string, bytes: Uint8Array }} file */
function make({ path, bytes }) {
  const file = openSync(path, 'wx');
  try {
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
  } finally {
    closeSync(file);
  }
}

parentPort?.on('message', (files) => {
  // An error would lose its code on the way.
  const failures = files.map((file) => {
    try {
      make(file);
      return undefined;
    } catch ({ code, message }) {
      return { code, message };
    }
  });
  parentPort?.postMessage(failures);
});

import { closeSync, openSync, writeSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';

/**
 * @param {string} path
 * @param {Uint8Array} bytes
 */
function make(path, bytes) {
  const file = openSync(path, 'wx');
  try {
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
  } finally {
    closeSync(file);
  }
}

// Each file's bytes begin where the one's before it end. An error would lose its code on the way back.
parentPort?.on('message', ({ files, bytes }) => {
  const failures = new Map();
  let begin = 0;
  for (const [index, { path, end }] of files.entries()) {
    try {
      make(path, bytes.subarray(begin, end));
    } catch ({ code, message }) {
      failures.set(index, { code, message });
    }
    begin = end;
  }
  parentPort?.postMessage(failures);
});

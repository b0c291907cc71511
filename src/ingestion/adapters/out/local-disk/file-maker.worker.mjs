import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';

/**
 * @param {string} path
 * @param {Uint8Array} bytes
 * @param {bigint | undefined} device
 */
function make(path, bytes, device) {
  const file = openSync(path, 'wx');
  try {
    if (device !== undefined && fstatSync(file, { bigint: true }).dev !== device) throw Object.assign(new Error(`EXDEV: ${path}`), { code: 'EXDEV' });
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
  } finally {
    closeSync(file);
  }
}

// `bytes` contains the bytes of all files, one file after the other; `end` is the offset at which a file's bytes end.
// An error is sent back as its code and message, because an Error loses its code when it is sent to another thread.
parentPort?.on('message', ({ files, bytes }) => {
  const failures = new Map();
  let begin = 0;
  for (const [index, { path, end, device }] of files.entries()) {
    try {
      make(path, bytes.subarray(begin, end), device);
    } catch ({ code, message }) {
      failures.set(index, { code, message });
    }
    begin = end;
  }
  parentPort?.postMessage(failures);
});

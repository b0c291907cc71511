// A module that `--import` loads into the service. On each SIGUSR2 it writes the longest pause of the event loop since
// the previous SIGUSR2, in milliseconds, to the file that PAUSES_FILE names.
import { writeFileSync } from 'node:fs';

const INTERVAL_MS = 2;
let last = performance.now();
let longest = 0;

setInterval(() => {
  const now = performance.now();
  longest = Math.max(longest, now - last - INTERVAL_MS);
  last = now;
}, INTERVAL_MS).unref();

process.on('SIGUSR2', () => {
  writeFileSync(process.env.PAUSES_FILE, `${longest}\n`);
  longest = 0;
  last = performance.now();
});

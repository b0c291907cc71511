// Preloaded into the service (`node --import`), in each of its threads: shifts `Date` by the milliseconds that the file
// CLOCK_FILE contains. Timers and `performance.now()` keep the machine's time, as after a step of a real clock.
import { readFileSync } from 'node:fs';

const LOOK_EVERY_MS = 5;
const { CLOCK_FILE } = process.env;
const RealDate = Date;
const realNow = RealDate.now;
let offset = 0;
let looked = -Infinity;

function now() {
  if (performance.now() - looked > LOOK_EVERY_MS) {
    looked = performance.now();
    try {
      offset = Number(readFileSync(CLOCK_FILE, 'latin1'));
    } catch {
      // The file can't be opened without a free file descriptor. The offset stays unchanged then.
    }
  }
  return realNow() + offset;
}

RealDate.now = now;
globalThis.Date = new Proxy(RealDate, {
  construct: (target, parameters, newTarget) => Reflect.construct(target, parameters.length === 0 ? [now()] : parameters, newTarget),
  apply: () => new RealDate(now()).toString(),
});

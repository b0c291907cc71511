// Preloaded into the service (`node --import`), in each of its threads. Shifts `Date` by the number of milliseconds in
// the file that CLOCK_FILE names. Timers and `performance.now()` keep the machine's time, as after a step of a real
// clock.
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
      // The file with the offset can't be opened when no file descriptor is free. The offset stays unchanged then.
    }
  }
  return realNow() + offset;
}

RealDate.now = now;
globalThis.Date = new Proxy(RealDate, {
  construct: (target, parameters, newTarget) => Reflect.construct(target, parameters.length === 0 ? [now()] : parameters, newTarget),
  apply: () => new RealDate(now()).toString(),
});

import { setTimeout as delay } from 'node:timers/promises';
import { otherTime } from '../../servers/fault-proxy.mjs';
import { MINUTE_MS } from '../clock.mjs';

const LATE_MS = 8_000;
const isWrite = ({ method }) => method === 'PUT' || method === 'POST' || method === 'DELETE';
const isPut = ({ method }) => method === 'PUT';

const twice = ({ body }) => ({ body: Buffer.from(body.toString().replaceAll(/<Contents>.*?<\/Contents>/gs, '$&$&')) });

/** The faults of the network to the bucket. `forMs`: how long a fault lasts in place of the planned duration. */
const FAULTS = {
  'delays writes by 8 s': { forMs: LATE_MS, begin: (proxy) => proxy.postpone({ to: isPut }) },
  'is slow': { begin: (proxy, { ms }) => proxy.delay(ms) },
  'loses answers': { begin: (proxy, { times }) => void proxy.cutAnswer({ times, to: isWrite }) },
  'repeats writes': { begin: (proxy) => proxy.repeat({ to: isWrite }) },
  'lists keys twice': { begin: (proxy) => proxy.alter(twice, { to: ({ url }) => url.includes('list-type=2') }) },
  'reports another time': { begin: (proxy, { minutes }) => proxy.alter(otherTime(minutes * MINUTE_MS)) },
  'resets connections': { begin: (proxy) => proxy.reset() },
  'refuses connections': { begin: (proxy) => proxy.refuse() },
  'throttles': { begin: (proxy) => proxy.throttle() },
};

export default {
  name: 'bucket-network',
  isExclusive: true,
  plan: (random) => ({
    fault: random.pick(Object.keys(FAULTS)),
    isForAll: random.chance(0.4),
    which: random.below(6),
    forMs: 1_000 + random.below(3_000),
    ms: 100 + random.below(1_500),
    times: 1 + random.below(10),
    minutes: random.pick([-20, -10, 10, 20]),
  }),
  title: ({ fault, isForAll }) => `the network between ${isForAll ? 'all replicas' : 'a replica'} and the bucket ${fault}`,
  async run(world, { fault: name, isForAll, which, forMs, ...details }) {
    const fault = FAULTS[name];
    const hit = isForAll ? world.replicas : [world.replicas[which % world.replicas.length]];
    await world.trouble({ name: `the network to the bucket ${name}` }, world.replicas, async () => {
      for (const { proxy } of hit) await fault.begin(proxy, details);
      await delay(fault.forMs ?? forMs);
      for (const { proxy } of hit) await proxy.pass();
    });
  },
};

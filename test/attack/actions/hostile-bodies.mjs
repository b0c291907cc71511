import { createHash } from 'node:crypto';
import { HOSTILE_BODIES } from '../../../bench/pauses/bodies.mjs';

const CLIENTS = [1, 5, 60];
/** The numbers of clients for bodies with long lines: a volume has room for several hundred MiB of these at a time. */
const FEW_CLIENTS = [1, 5];
/** How long a client waits for its answer: sixty long bodies take a minute on a busy machine. */
const PACE = { silenceMs: 300_000 };
const LONG_LINES = ['a form with 10 MiB of control characters'];

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** Sends bodies that are as expensive as possible. Each must be stored or rejected, as its description says. */
export default {
  name: 'hostile-bodies',
  plan: (random) => {
    const { title } = random.pick(HOSTILE_BODIES);
    return { body: title, clients: random.pick(LONG_LINES.includes(title) ? FEW_CLIENTS : CLIENTS) };
  },
  title: ({ body, clients }) => `${clients} x ${body}`,
  async run(world, { body: title, clients }, { random, replica }) {
    const { status, keyed, make } = HOSTILE_BODIES.find((hostile) => hostile.title === title);
    const { headers, body, stored } = make();
    const file = stored?.file ?? null;
    const kept = { additionalData: stored?.additionalData ?? null, size: file && file.length, sha256: file && sha256(file) };
    const one = async () => {
      const { path, sent } = world.someUpload(random, { largest: 1 });
      const upload = { path, headers: { ...headers, 'Content-Length': body.length }, body, sent: { ...sent, ...kept } };
      const answer = await replica().upload(keyed ? world.keyed(upload) : upload, { expected: [status], pace: PACE });
      if (answer?.status === 200 && status !== 200) world.model.find('answers', `${title} was answered with 200 instead of ${status}`);
    };
    await Promise.all(Array.from({ length: clients }, one));
  },
};

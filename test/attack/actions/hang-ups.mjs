import { setTimeout as delay } from 'node:timers/promises';

export default {
  name: 'hang-ups',
  plan: (random) => ({ clients: 1 + random.below(30) }),
  title: ({ clients }) => `${clients} clients disconnect`,
  async run(world, { clients }, { random, replica }) {
    await Promise.all(Array.from({ length: clients }, () => hangUp(world, random, replica())));
  },
};

async function hangUp(world, random, replica) {
  const some = world.someUpload(random);
  const socket = await replica.beginUpload(random.chance(0.3) ? world.keyed(some) : some, random.next() * 0.99);
  await delay(random.below(300));
  if (random.chance(0.5)) socket.resetAndDestroy();
  else socket.destroy();
}

/** Sends one upload with a key several times at once. It is stored once; the other clients get its receipt or 409. */
export default {
  name: 'keys-at-once',
  plan: (random) => ({ clients: 2 + random.below(7) }),
  title: ({ clients }) => `${clients} x one key`,
  async run(world, { clients }, { random, replica }) {
    const upload = world.keyed(world.someUpload(random));
    await Promise.all(Array.from({ length: clients }, () => replica().upload(upload)));
    await replica().upload(upload);
  },
};

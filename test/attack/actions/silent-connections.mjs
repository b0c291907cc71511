export default {
  name: 'silent-connections',
  plan: (random) => ({ connections: 10 + random.below(90), large: random.chance(0.5) }),
  title: ({ connections, large }) => `${connections} connections stall${large ? ' after 1 MB' : ''}`,
  async run(world, { connections, large }, { random, replica }) {
    const sizes = large ? { inParts: { share: 1, bytes: 2_000_000 } } : undefined;
    const sockets = await Promise.all(Array.from({ length: connections }, () => replica().beginUpload(world.someUpload(random, sizes), 0.5)));
    world.atEnd(() => {
      for (const socket of sockets) socket.destroy();
    });
  },
};

export default {
  name: 'replica-restart',
  isExclusive: true,
  plan: (random) => ({ which: random.below(6), signal: random.pick(['SIGKILL', 'SIGTERM']) }),
  title: ({ signal }) => `${signal === 'SIGKILL' ? 'kill -9' : signal} of a replica`,
  async run(world, { which, signal }) {
    const replica = world.replicas[which % world.replicas.length];
    world.model.ledger.mayLeaveRefused(replica.service);
    await world.restart(replica, signal);
  },
};

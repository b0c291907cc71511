/** Begins uploads that take seconds, so that faults of later steps happen during them. */
export default {
  name: 'slow-uploads',
  plan: (random) => ({ uploads: 1 + random.below(4), keyed: random.chance(0.6), pieces: 3 + random.below(5), pauseMs: 200 + random.below(800) }),
  title: ({ uploads, keyed, pieces, pauseMs }) => `${uploads} ${keyed ? 'keyed ' : ''}uploads over ${(((pieces - 1) * pauseMs) / 1000).toFixed(1)} s`,
  run(world, { uploads, keyed, ...pace }, { random, replica }) {
    for (let upload = 0; upload < uploads; upload++) {
      const some = world.someUpload(random);
      world.beside(slow(keyed ? world.keyed(some) : some, keyed, pace, replica));
    }
  },
};

async function slow(upload, keyed, pace, replica) {
  const answer = await replica().upload(upload, { pace });
  if (keyed && answer?.status === 200) await replica().upload(upload);
}

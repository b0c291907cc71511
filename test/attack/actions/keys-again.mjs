/** Repeats uploads under their keys. Another upload under one of these keys must be refused with 422. */
export default {
  name: 'keys-again',
  plan: (random) => ({ repeats: 1 + random.below(20) }),
  title: ({ repeats }) => `${repeats} keys again`,
  async run(world, { repeats }, { random, replica }) {
    const uploads = world.model.held(random, repeats);
    await Promise.all(uploads.map((upload) => replica().upload(upload)));
    const [first] = uploads;
    if (!first) return;
    const other = world.someUpload(random);
    const { 'Idempotency-Key': key } = first.headers;
    const path = first.path.replace('manufacturer=m', 'manufacturer=other');
    await replica().upload({ ...first, path, sent: other.sent, headers: { ...first.headers, 'Idempotency-Key': key } }, { expected: [422], isOther: true });
  },
};

// The time limit is long, because a few tests of the suites store long files.
export default { test: { include: ['vitest.spec.mjs'], testTimeout: 60_000 } };

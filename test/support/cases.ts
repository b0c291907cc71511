/** Whether tests that have very many cases try all of them, as with `npm run test:slow`. */
export const isEachCaseTried = process.env.TEST_CASES === 'all';

/** How many of `count` random cases a test tries: all with `npm run test:slow`, a quarter with `npm test`. */
export const casesOf = (count: number): number => (isEachCaseTried ? count : Math.ceil(count / 4));

// Runs one of the benchmarks: `npm run bench -- <name> [options]`. Each starts what `npm run build` made.
import { existsSync } from 'node:fs';
import { runCommand } from './support/command.mjs';

const BENCHES = {
  memory: 'growth of memory for 1 GiB raw, 1 GiB in a form, and lists of 100,000 users',
  pauses: 'the longest pause of the event loop under bodies that are made to cost, and /health/live beside 60 of them [--only=<part of a title>] [--at=60]',
  walk: 'how many of our files and functions one request runs [--only=<part of a title>] [--show]',
  fuzz: 'random requests; every answer must be one of the interface [--requests=10000] [--seed=<n>] [--only=<i>]',
  uploads: 'rates against other ways to keep uploads, on a fresh disk image where root allows [--rounds=5] [--seconds=4] [--only=<rows>] [--directory=<dir>]',
  'object-storage': 'the same with uploads in S3 that takes 10 ms for a request; needs versitygw, or Go to install it [--rounds=5] [--seconds=4] [--only=<rows>]',
  identity: 'roles and users in Keycloak through the service against direct calls; needs Java, and Maven to install it [--rounds=5] [--seconds=4] [--only=<rows>]',
  auth0: "roles and users where more is asked of the service than a tenant of Auth0's takes, on a stand-in; three minutes",
};

const [name = '', ...parameters] = process.argv.slice(2);
if (!Object.hasOwn(BENCHES, name)) {
  for (const [known, purpose] of Object.entries(BENCHES)) console.log(`npm run bench -- ${known.padEnd(14)} ${purpose}`);
  process.exitCode = name === '' ? 0 : 1;
} else if (!existsSync('dist/main.js')) {
  console.error('There is no build: npm run build');
  process.exitCode = 1;
} else {
  const { default: bench } = await import(`./${name}.mjs`);
  await runCommand(async () => ((await bench(parameters)) ? 0 : 1));
}

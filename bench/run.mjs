// Runs one of the benchmarks: `npm run bench -- <name> [options]`. Each benchmark starts the built service.
import { existsSync } from 'node:fs';
import { runCommand } from './support/command.mjs';

const BENCHES = {
  memory: 'memory when idle, and its growth for 1 GiB raw, 1 GiB in a form, and lists of 100,000 users [--only=<part of a title>]',
  pauses: 'the longest pause of the event loop with expensive bodies, and /health/live during 60 of them [--only=<part of a title>] [--at=60]',
  walk: 'the number of files and functions of the service that one request runs [--only=<part of a title>] [--show]',
  fuzz: 'random requests, whose answers must all be documented ones [--requests=10000] [--seed=<n>] [--only=<i>]',
  uploads: 'rates compared with other ways to store uploads; as root, on a new disk image [--rounds=5] [--seconds=4] [--only=<rows>] [--directory=<dir>] [--earlier=<dist of an earlier build>]',
  'object-storage': 'the same with uploads in an S3 with a latency of 10 ms; needs versitygw, or Go to install it [--rounds=5] [--seconds=4] [--only=<rows>]',
  replicas: 'uploads through nginx to 1, 2 and 4 replicas on a bucket, with their requests to the bucket and processor time, and to a store 20 and 50 ms away; needs nginx, and versitygw or Go [--rounds=5] [--seconds=4] [--only=<rows>]',
  finding: 'finding, fetching and removing uploads in a store of 1,000 days, one with 1,000,000 uploads; needs nginx and curl [--only=<parts>] [--uploads=<n>] [--days=<n>] [--requests=300]',
  telling: 'delivering events to a webhook: a backlog, and uploads with and without delivery, and files in a bucket; needs versitygw or Go [--only=<parts>]',
  identity: 'roles and users in Keycloak through the service compared with direct calls; needs Java, and Maven to install Keycloak [--rounds=5] [--seconds=4] [--only=<rows>] [--connections=8] [--replicas=1]',
  auth0: 'roles and users with more requests than an Auth0 tenant allows, on a stand-in; takes three minutes',
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

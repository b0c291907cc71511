import { parseArgs } from 'node:util';
import { measureSlowReaders, measureSlowReadersOfBucket, measureUploadsBesideLookups, measureUploadsBesideLookupsInBucket } from './finding/beside.mjs';
import { measureContent } from './finding/content.mjs';
import { measureLookups, measureLookupsInBucket } from './finding/lookups.mjs';
import { measureRemoval, measureRemovalInBucket } from './finding/removal.mjs';
import { withServices } from './support/service.mjs';
import { printConditions } from './support/contests.mjs';

const PARTS = {
  lookups: measureLookups,
  'bucket-lookups': measureLookupsInBucket,
  content: measureContent,
  beside: measureUploadsBesideLookups,
  'bucket-beside': measureUploadsBesideLookupsInBucket,
  readers: measureSlowReaders,
  'bucket-readers': measureSlowReadersOfBucket,
  removal: measureRemoval,
  'bucket-removal': measureRemovalInBucket,
};

/**
 * Measures finding, listing, fetching and removing uploads in a large store. Each part of the benchmark has its own
 * service and its own store.
 *
 * @param {string[]} parameters
 * @returns {Promise<boolean>} whether every goal is reached.
 */
export default async function finding(parameters) {
  const number = (value) => ({ type: 'string', default: value });
  const { values } = parseArgs({ args: parameters, options: { uploads: number('1000000'), days: number('1000'), requests: number('300'), only: { type: 'string' } } });
  const names = values.only?.split(',') ?? Object.keys(PARTS);
  const unknown = names.filter((name) => !Object.hasOwn(PARTS, name));
  if (unknown.length > 0) {
    console.error(`--only: there is no part ${unknown.join(', ')}; there are ${Object.keys(PARTS).join(', ')}`);
    return false;
  }
  const shape = { uploads: Number(values.uploads), days: Number(values.days), requests: Number(values.requests) };
  printConditions({ rounds: 5, seconds: 4 }, `store:   ${shape.uploads} uploads in one day, ${shape.days} days`);
  const results = [];
  for (const name of names) results.push(...(await withServices((services) => PARTS[name](services, shape))));
  console.table(Object.fromEntries(results.map(({ title, figure, goal, ok }) => [title, { figure, goal, '': ok ? 'ok' : 'missed' }])));
  return results.every(({ ok }) => ok);
}

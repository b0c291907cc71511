import { resolve } from 'node:path';
import { atLeast, row } from '../support/goals.mjs';
import { SERVICE } from './competitors.mjs';
import { files4KiB, form1GiB, json, jsonBesideLarge, raw1GiB } from './loads.mjs';

const LOADS = {
  'json-1': { work: 'small JSON, 1 connection', load: json(1), figure: 'rate' },
  'json-32': { work: 'small JSON, 32 connections', load: json(32), figure: 'rate' },
  'json-128': { work: 'small JSON, 128 connections', load: json(128), figure: 'rate' },
  files: { work: '4 KiB files, 32 connections', load: files4KiB(32), figure: 'rate' },
  raw: { work: '1 GiB raw', load: raw1GiB, figure: 'throughput' },
  form: { work: '1 GiB multipart', load: form1GiB, figure: 'throughput' },
  beside: { work: 'small JSON, 8 connections, beside 4 x 64 MiB/s', load: jsonBesideLarge(8), figure: 'rate' },
};

/** The rows of the bench with `--earlier`. The goal of each: at least 97 % of the earlier build's figure. */
export const EARLIER_BUILD_ROWS = Object.entries(LOADS).map(([name, { work, figure }]) =>
  row(name, work, name, ['service', figure], ['earlier', figure], atLeast(0.97)),
);

/**
 * The entrants of the rows with `--earlier`.
 *
 * @param {string} directory the directory of the earlier build's `main.js`, which finds its packages from there
 */
export function earlierBuildContests(directory) {
  const earlier = { title: 'the earlier build', program: resolve(directory, 'main.js') };
  return Object.fromEntries(
    Object.entries(LOADS).map(([name, { load }]) => [name, { service: { competitor: SERVICE, load }, earlier: { competitor: earlier, load } }]),
  );
}

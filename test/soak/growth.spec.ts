import { expect, it } from 'vitest';
import { growthOf, medians } from './growth.mjs';

const SECONDS = 900;
const curveOf = (valueAt: (second: number) => number): [number, number][] => Array.from({ length: SECONDS * 4 }, (_, index) => [index / 4, valueAt(index / 4) + (index % 4) / 10]);
const rising = (second: number) => 10 + second / 300;
const isSlow = (second: number) => second >= 600 && second < 870;

it.each<[string, 'latency' | 'memory', (second: number) => number, string]>([
  ['a steady latency is flat', 'latency', () => 10, 'flat'],
  ['a latency that rises all the time grew', 'latency', rising, 'grew'],
  ['a latency that stays higher grew', 'latency', (second) => (second >= 600 ? 12 : 10), 'grew'],
  ['steady memory is flat', 'memory', () => 120, 'flat'],
  ['memory that rises all the time grew', 'memory', (second) => 120 + second / 30, 'grew'],
  ['memory that is higher for some minutes grew', 'memory', (second) => (isSlow(second) ? 140 : 120), 'grew'],
])('%s', (name, kind, valueAt, trend) => {
  const all = curveOf(valueAt);
  const curve = kind === 'latency' ? { name, unit: 'ms', points: medians(all), all } : { name, unit: 'MiB', points: all };
  const row = growthOf(curve, SECONDS, 1.05);
  expect(row[''], JSON.stringify(row)).toBe(trend);
});

it('without a value in a quarter, whether a latency grew is unknown', () => {
  const all = curveOf(() => 10).filter(([second]) => second < SECONDS / 2);
  expect(growthOf({ name: 'page', unit: 'ms', points: medians(all), all }, SECONDS, 1.05)['']).toBe('unknown');
});

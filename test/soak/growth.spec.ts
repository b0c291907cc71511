import { expect, it } from 'vitest';
import { growthOf, medians, type Points } from './growth.mjs';

const SECONDS = 900;
const curveOf = (valueAt: (second: number) => number): Points => Array.from({ length: SECONDS * 4 }, (_, index) => [index / 4, valueAt(index / 4) + (index % 4) / 10]);
const stepTo = (factor: number) => (second: number) => (second >= 600 ? 10 * factor : 10);
const latency = (all: Points, control = curveOf(stepTo(1))) => ({ name: 'latency', unit: 'ms', points: medians(all), all, control });
const rising = (second: number) => 10 + second / 300;
const isSlow = (second: number) => second >= 600 && second < 870;

it.each<[string, 'latency' | 'memory', (second: number) => number, string]>([
  ['a steady latency is flat', 'latency', stepTo(1), 'flat'],
  ['a latency that rises all the time grew', 'latency', rising, 'grew'],
  ['a latency that stays higher grew', 'latency', stepTo(1.2), 'grew'],
  ['steady memory is flat', 'memory', () => 120, 'flat'],
  ['memory that rises all the time grew', 'memory', (second) => 120 + second / 30, 'grew'],
  ['memory that is higher for some minutes grew', 'memory', (second) => (isSlow(second) ? 140 : 120), 'grew'],
  ['memory with two usual values is flat, even if their median jumps', 'memory', (second) => (second % 20 < (second < 450 ? 9 : 11) ? 130 : 120), 'flat'],
])('%s', (name, kind, valueAt, trend) => {
  const all = curveOf(valueAt);
  const curve = kind === 'latency' ? latency(all) : { name, unit: 'MiB', points: all };
  const row = growthOf(curve, SECONDS, 1.05);
  expect(row[''], JSON.stringify(row)).toBe(trend);
});

it.each<[string, number, number, { ratio: string; 'beside the control': string; '': string }]>([
  ['a latency that grew like its control is flat', 1.2, 1.2, { ratio: '1.20', 'beside the control': '1.00', '': 'flat' }],
  ['a latency that grew more than its control grew', 1.4, 1.2, { ratio: '1.39', 'beside the control': '1.16', '': 'grew' }],
  ['a latency that grew less than its control is flat', 1.1, 1.2, { ratio: '1.10', 'beside the control': '0.92', '': 'flat' }],
  ['a steady latency grew if its control became faster', 1, 0.9, { ratio: '1.00', 'beside the control': '1.11', '': 'grew' }],
  ['beside a control that became far slower, whether a latency grew is unknown', 1.3, 1.3, { ratio: '1.30', 'beside the control': '1.00', '': 'unknown' }],
  ['beside a control that became far faster, whether a latency grew is unknown', 0.7, 0.7, { ratio: '0.70', 'beside the control': '1.00', '': 'unknown' }],
])('%s', (_, factor, controlFactor, cells) => {
  expect(growthOf(latency(curveOf(stepTo(factor)), curveOf(stepTo(controlFactor))), SECONDS, 1.05)).toMatchObject(cells);
});

it('a control that grew has its ratio, and no verdict', () => {
  const all = curveOf(stepTo(1.2));
  const row = growthOf({ name: 'control', unit: 'ms', points: medians(all), all, isControl: true }, SECONDS, 1.05);
  expect(row).toEqual({ title: 'control', 'second quarter': '10 ms', 'last quarter': '12 ms', ratio: '1.20' });
});

const steady = curveOf(stepTo(1));
const firstHalf = steady.filter(([second]) => second < SECONDS / 2);
it.each<[string, Points, Points]>([
  ['of the latency', firstHalf, steady],
  ['of its control', steady, firstHalf],
])('without a value %s in a quarter, whether it grew is unknown', (_, all, control) => {
  expect(growthOf(latency(all, control), SECONDS, 1.05)['']).toBe('unknown');
});

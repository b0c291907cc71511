import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ProgressLine } from './progress-line.js';
import { removalProgress } from './removal-progress.js';

describe('the progress line', () => {
  const isTerminal = Object.getOwnPropertyDescriptor(process.stderr, 'isTTY');
  let shown: string;
  beforeEach(() => {
    shown = '';
    vi.useFakeTimers();
    vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
      shown += String(text);
      return true;
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
    if (isTerminal) Object.defineProperty(process.stderr, 'isTTY', isTerminal);
    else Reflect.deleteProperty(process.stderr, 'isTTY');
  });
  const onTerminal = (value: boolean): void => {
    Object.defineProperty(process.stderr, 'isTTY', { value, configurable: true });
  };
  const lines = async function* (): AsyncGenerator<string> {
    yield await Promise.resolve('a defect\n');
  };

  it('is replaced while work goes on, makes way for each line, and is cleared at the end', async () => {
    onTerminal(true);
    let done = 0;
    const progress = new ProgressLine(() => `${++done} of 9`);
    vi.advanceTimersByTime(400);
    expect(shown).toBe('\r\x1b[K1 of 9\r\x1b[K2 of 9');
    for await (const line of progress.beside(lines())) shown += line;
    progress.end();
    vi.advanceTimersByTime(400);
    expect(shown).toBe('\r\x1b[K1 of 9\r\x1b[K2 of 9\r\x1b[Ka defect\n\r\x1b[K');
  });

  it('is absent if standard error is no terminal', async () => {
    onTerminal(false);
    const progress = new ProgressLine(() => 'half');
    vi.advanceTimersByTime(400);
    for await (const line of progress.beside(lines())) shown += line;
    progress.end();
    expect(shown).toBe('a defect\n');
  });
});

describe('the progress of a removal', () => {
  it.each([
    [{ segments: 0, allSegments: 0, uploads: 0 }, '[....................]   0 % 0 uploads'],
    [{ segments: 1, allSegments: 4, uploads: 1 }, '[#####...............]  25 % 1 upload'],
    [{ segments: 3, allSegments: 3, uploads: 12 }, '[####################] 100 % 12 uploads'],
  ])('is a bar with the number of uploads: %j', (progress, text) => {
    expect(removalProgress(progress)).toBe(text);
  });
});

import { IDEMPOTENCY_PERIOD_MS } from '../../domain/idempotency.js';
import { DigestSet, digestOf, nameOf } from './digest-set.js';
import type { Finding } from './finding.js';
import type { IndexReader } from './index-reader.js';
import { type KeyedLine, keyedLine } from './keyed-line.js';
import { lineFinding } from './line-finding.js';
import type { StoreView } from './store-view.js';

/**
 * Finds the idempotency keys under which two uploads of one customer and kind were received less than 24 hours apart.
 */
export class DuplicateKeys {
  private readonly periods: DigestSet;
  /** Keys that were added twice, in one 24-hour period or in adjacent ones, perhaps because one line was read twice. */
  private readonly suspects = new Map<string, KeyedLine[]>();

  constructor(
    private readonly view: StoreView,
    private readonly index: IndexReader,
    places: number,
  ) {
    this.periods = new DigestSet(places);
  }

  clear(): void {
    this.periods.clear();
    this.suspects.clear();
  }

  /** @throws DigestSetFullError if there is no place left. */
  add(line: KeyedLine): void {
    if (!this.addPeriod(line)) this.suspects.set(nameOf(line.key), []);
  }

  /**
   * Reads the index again if any key may be duplicate. Yields a finding for each line with the key of an earlier line,
   * if their uploads were received less than 24 hours apart. Also yields the findings of `IndexReader.lines`.
   */
  async *findings(): AsyncGenerator<Finding> {
    if (this.suspects.size === 0) return;
    for await (const line of this.index.lines(false)) {
      if ('state' in line) {
        yield line;
        continue;
      }
      const keyed = keyedLine(line);
      const others = keyed && this.suspects.get(nameOf(keyed.key));
      if (!others || others.some(({ uploadId }) => uploadId === keyed.uploadId)) continue;
      if (!(await this.view.stays(line))) continue;
      const other = others.find(({ receivedAt }) => Math.abs(receivedAt - keyed.receivedAt) < IDEMPOTENCY_PERIOD_MS);
      others.push(keyed);
      if (!other) continue;
      const detail = `upload ${other.uploadId} has the same idempotency key, less than 24 hours apart`;
      yield lineFinding(line, { state: 'defect', kind: 'key-duplicate', detail });
    }
  }

  private addPeriod({ key, receivedAt }: KeyedLine): boolean {
    const period = Math.floor(receivedAt / IDEMPOTENCY_PERIOD_MS);
    const nameIn = (other: number) => digestOf(`${nameOf(key)}\n${other}`);
    const isNear = [period - 1, period + 1].some((other) => this.periods.has(nameIn(other)));
    return this.periods.add(nameIn(period)) && !isNear;
  }
}

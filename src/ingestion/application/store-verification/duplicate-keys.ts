import { IDEMPOTENCY_PERIOD_MS } from '../../domain/idempotency.js';
import { DigestSet, digestOf, nameOf } from './digest-set.js';
import type { Finding } from './finding.js';
import type { IndexReader } from './index-reader.js';
import { type KeyedLine, keyedLine } from './keyed-line.js';
import { lineFinding } from './line-finding.js';
import type { StoreView } from './store-view.js';

/**
 * Finds the idempotency keys under which two uploads were received less than 24 hours apart. The same key of another
 * customer, or of another kind of upload, counts as another key.
 */
export class DuplicateKeys {
  /**
   * The idempotency keys that were added, each combined with the period of 24 hours in which its upload was received.
   */
  private readonly periods: DigestSet;
  /**
   * The idempotency keys that may be duplicate: those that were added twice, with times in the same period of 24 hours
   * or in two adjacent ones. It may also be that one line was read twice. `findings` collects the lines of each such
   * key here, one for each upload.
   */
  private readonly suspects = new Map<string, KeyedLine[]>();

  /**
   * @param places the size of the hash table of idempotency keys (see `DigestSet`), in places for one key each: a power
   * of two. At most nine tenths of the places can be taken.
   */
  constructor(
    private readonly view: StoreView,
    private readonly index: IndexReader,
    places: number,
  ) {
    this.periods = new DigestSet(places);
  }

  /** Forgets all keys that were added. Called before those of the next part of the index are added. */
  clear(): void {
    this.periods.clear();
    this.suspects.clear();
  }

  /**
   * Adds the idempotency key of an index line.
   *
   * @throws DigestSetFullError if there is no place left for the key.
   */
  add(line: KeyedLine): void {
    if (!this.addPeriod(line)) this.suspects.set(nameOf(line.key), []);
  }

  /**
   * Reads the index again if any key may be duplicate. Yields a finding for each index line whose key is also the key
   * of an earlier line, if the two lines are of different uploads that were received less than 24 hours apart. Also
   * yields the findings about parts of the index that can't be read (`IndexReader.lines`).
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

  /**
   * Adds a key with the period of its upload. Returns false if the same key was added before with a time that may be
   * less than 24 hours earlier or later.
   */
  private addPeriod({ key, receivedAt }: KeyedLine): boolean {
    const period = Math.floor(receivedAt / IDEMPOTENCY_PERIOD_MS);
    const nameIn = (other: number) => digestOf(`${nameOf(key)}\n${other}`);
    const isNear = [period - 1, period + 1].some((other) => this.periods.has(nameIn(other)));
    return this.periods.add(nameIn(period)) && !isNear;
  }
}

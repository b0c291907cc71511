import { lowerBound } from './lower-bound.js';

/** Objects by their keys, in the order in which S3 lists keys: that of the key's bytes in UTF-8. */
export class SortedObjects<T> {
  private readonly objects = new Map<string, T>();
  private readonly sorted: string[] = [];

  get keys(): string[] {
    return [...this.sorted];
  }

  get(key: string): T | undefined {
    return this.objects.get(key);
  }

  has(key: string): boolean {
    return this.objects.has(key);
  }

  set(key: string, object: T): void {
    if (!this.objects.has(key)) this.sorted.splice(this.positionOf(key), 0, key);
    this.objects.set(key, object);
  }

  delete(key: string): void {
    if (this.objects.delete(key)) this.sorted.splice(this.positionOf(key), 1);
  }

  *list(prefix: string, after = ''): Generator<[string, T], void, undefined> {
    let at = Math.max(this.positionOf(prefix), this.positionOf(after));
    if (this.sorted[at] === after) at += 1;
    for (; at < this.sorted.length; at++) {
      const key = this.sorted[at] ?? '';
      if (!key.startsWith(prefix)) return;
      yield [key, this.objects.get(key) as T];
    }
  }

  copy(): SortedObjects<T> {
    const copy = new SortedObjects<T>();
    for (const [key, object] of this.objects) copy.set(key, object);
    return copy;
  }

  private positionOf(key: string): number {
    const bytes = Buffer.from(key);
    return lowerBound(this.sorted, (one) => Buffer.compare(Buffer.from(one), bytes) < 0);
  }
}

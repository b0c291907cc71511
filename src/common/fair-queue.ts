/** By turns, the next is the oldest and the newest of those who wait: a crowd that doesn't go on holds nobody up for long. */
export class FairQueue<T> {
  private readonly waiting: T[] = [];
  private isNewestNext = false;

  get length(): number {
    return this.waiting.length;
  }

  get oldest(): T | undefined {
    return this.waiting[0];
  }

  get next(): T | undefined {
    return this.waiting.at(this.isNewestNext ? -1 : 0);
  }

  push(one: T): void {
    this.waiting.push(one);
  }

  /** Takes the next one out. */
  shift(): T | undefined {
    const next = this.isNewestNext ? this.waiting.pop() : this.waiting.shift();
    this.isNewestNext = !this.isNewestNext;
    return next;
  }

  /** Takes out the first one that it is true of, out of turn. */
  remove(isIt: (one: T) => boolean): T | undefined {
    const at = this.waiting.findIndex(isIt);
    return at < 0 ? undefined : this.waiting.splice(at, 1)[0];
  }
}

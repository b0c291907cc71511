/** A queue that gives out its oldest and newest items alternately, so that stalled items don't block newer ones. */
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

  shift(): T | undefined {
    const next = this.isNewestNext ? this.waiting.pop() : this.waiting.shift();
    this.isNewestNext = !this.isNewestNext;
    return next;
  }

  remove(isIt: (one: T) => boolean): T | undefined {
    const at = this.waiting.findIndex(isIt);
    return at < 0 ? undefined : this.waiting.splice(at, 1)[0];
  }
}

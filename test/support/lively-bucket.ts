import type { ListedObject } from '../../src/ingestion/adapters/out/object-storage/bucket.js';
import { InMemoryBucket } from '../../src/testing/in-memory.bucket.js';

/** A bucket whose listings, sent in pages, find what is created before their end, as those of a real store do. */
export class LivelyBucket extends InMemoryBucket {
  constructor(private readonly pageLength: number) {
    super();
  }

  override async *list(prefix: string): AsyncGenerator<ListedObject> {
    for (let after: string | undefined = ''; after !== undefined; ) {
      const rest: ListedObject[] = [];
      for await (const object of super.listAfter(prefix, after) ?? []) rest.push(object);
      yield* rest.slice(0, this.pageLength);
      after = rest.length > this.pageLength ? rest[this.pageLength - 1]?.key : undefined;
    }
  }
}

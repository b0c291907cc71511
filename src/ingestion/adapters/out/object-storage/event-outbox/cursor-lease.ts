import { randomUUID } from 'node:crypto';
import { OneAtATime } from '../../../../../common/one-at-a-time.js';
import { withTimeLimit } from '../../../../../common/time-limit.js';
import { type Bucket, StoreSilentError } from '../bucket.js';
import { CURSOR } from '../keys.js';
import { type Cursor, cursorBytes, parseCursor } from './cursor.js';

const RENEW_EVERY_MS = 15_000;
/** The time limit of a request for the cursor. If one hangs, there is time for another before the lease expires. */
const MAX_CALL_MS = 10_000;
/** A holder of the cursor that hasn't written it for this long, by the store's clock, counts as crashed. */
const HOLDER_LOST_AFTER_MS = 40_000;

/** This process doesn't hold the cursor (`events/cursor`). */
export class CursorLostError extends Error {
  constructor() {
    super('Another process delivers the events now.');
    this.name = new.target.name;
  }
}

/**
 * Holds the cursor of the event outbox, so that usually only one process at a time delivers events. A process that
 * stalled can't overwrite the cursor of a process that took over. Until the stalled process tries to, both may deliver
 * the same events.
 */
export class CursorLease {
  private readonly id = randomUUID();
  private held: { readonly cursor: Cursor; version: string } | undefined;
  private timer: NodeJS.Timeout | undefined;
  private readonly writes = new OneAtATime();
  private isClosed = false;

  /** @param onRenew called with true after an attempt to renew the lease, with false after its end. Must not reject. */
  constructor(
    private readonly bucket: Bucket,
    private readonly onRenew: (isHeld: boolean) => Promise<void>,
  ) {}

  /**
   * Takes the cursor. Resolves to undefined if the bucket has no cursor, if another live process holds it or takes it
   * first, or after `release`.
   *
   * @throws errors of the bucket; an Error if the cursor is damaged.
   */
  async take(): Promise<Cursor | undefined> {
    if (this.held) return this.held.cursor;
    if (this.isClosed) return undefined;
    const found = await this.bucket.read(CURSOR);
    if (!found) return undefined;
    const cursor = parseCursor(found.bytes);
    if (cursor.holder !== null && cursor.holder !== this.id && found.ageMs < HOLDER_LOST_AFTER_MS) return undefined;
    cursor.holder = this.id;
    cursor.writes += 1;
    const version = await this.bucket.replace(CURSOR, cursorBytes(cursor), found.version);
    if (version === undefined) return undefined;
    this.held = { cursor, version };
    this.timer = setInterval(() => { void this.renew(); }, RENEW_EVERY_MS).unref();
    return cursor;
  }

  /**
   * Writes the cursor. Throws CursorLostError if this process doesn't hold it; an Error if the cursor in the bucket is
   * damaged; or an error of the bucket, after which the cursor may have been written.
   */
  write(): Promise<void> {
    return this.writes.run(() => this.writeNow());
  }

  /** Offers the cursor to other processes. Until one takes it, this process keeps it. */
  async offer(): Promise<void> {
    if (!this.held) return;
    this.held.cursor.holder = null;
    await this.write().catch(() => undefined);
  }

  /**
   * Takes back the cursor if this process has offered it. Resolves to whether this process holds the cursor.
   *
   * @throws errors of the bucket; an Error if the cursor is damaged.
   */
  async keep(): Promise<boolean> {
    const { held } = this;
    if (!held) return false;
    if (held.cursor.holder === this.id) return true;
    held.cursor.holder = this.id;
    try {
      await this.write();
      return true;
    } catch (error) {
      if (error instanceof CursorLostError) return false;
      held.cursor.holder = null;
      throw error;
    }
  }

  /** Gives up the cursor for good. If that fails, another process can take it only 40 s after its last write. */
  async release(): Promise<void> {
    this.isClosed = true;
    if (!this.held) return;
    this.held.cursor.holder = null;
    await this.write().catch(() => undefined);
    await this.end();
  }

  private async renew(): Promise<void> {
    // A failed renewal is harmless: if another process has taken the cursor, the next write of the cursor detects that.
    await this.write().catch(() => undefined);
    if (this.held) await this.onRenew(true);
  }

  private async writeNow(): Promise<void> {
    const { held } = this;
    if (!held) throw new CursorLostError();
    held.cursor.writes += 1;
    const bytes = cursorBytes(held.cursor);
    let version = await within(this.bucket.replace(CURSOR, bytes, held.version));
    if (version === undefined) {
      // The cursor's version may differ because the store carried out an earlier write of this process whose answer was
      // lost.
      const found = await within(this.bucket.read(CURSOR));
      if (found && parseCursor(found.bytes).holder === this.id) version = await within(this.bucket.replace(CURSOR, bytes, found.version));
    }
    if (version === undefined) {
      await this.end();
      throw new CursorLostError();
    }
    held.version = version;
  }

  private async end(): Promise<void> {
    clearInterval(this.timer);
    this.held = undefined;
    await this.onRenew(false);
  }
}

/** Limits the time of a request. The store may still carry out a request that timed out. */
const within = <T>(request: Promise<T>): Promise<T> => withTimeLimit(MAX_CALL_MS, () => request, () => new StoreSilentError(MAX_CALL_MS));

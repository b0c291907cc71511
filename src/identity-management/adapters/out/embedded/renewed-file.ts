import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { LoggerService } from '@nestjs/common';
import { DataDirectoryError } from '../../../../common/data-directory/data-directory-error.js';

/** How long to wait for the disk. Then the content from before is used. */
const MAX_WAIT_MS = 250;

export interface AvailableStore {
  /** Rejects while DATA_DIR is away: the directory of another store may be at its path. */
  readonly assertAvailable: () => Promise<void>;
  readonly logger: Pick<LoggerService, 'warn'>;
}

/** The content of a file of a running service. The file is read again when it has been replaced. */
export class RenewedFile<T> {
  private renewing: Promise<void> | undefined;
  private waiting: Promise<void> | undefined;
  /** Unknown at first, so that the file is read once more: it may have been replaced since `open` read it. */
  private version: string | undefined;
  private problem: string | undefined;

  private constructor(
    private readonly path: string,
    private readonly warning: string,
    private readonly load: (isFirst: boolean) => Promise<T>,
    private readonly store: AvailableStore,
    private content: T,
  ) {}

  /**
   * Reads the file, and rejects with the errors of `load`.
   *
   * @param warning is logged, with the message of the error, if the file can't be read again.
   * @param load reads the file. May create it if `isFirst` is true.
   */
  static async open<T>(path: string, warning: string, load: (isFirst: boolean) => Promise<T>, store: AvailableStore): Promise<RenewedFile<T>> {
    return new RenewedFile(path, warning, load, store, await load(true));
  }

  /**
   * What is in the file; simultaneous calls share one look at it. If that can't be used, the last content that could, with
   * one warning; also while the store is away, or if the disk doesn't answer within a quarter of a second.
   */
  async current(): Promise<T> {
    this.waiting ??= this.renewInTime().finally(() => (this.waiting = undefined));
    await this.waiting;
    return this.content;
  }

  private async renewInTime(): Promise<void> {
    this.renewing ??= this.renew().finally(() => (this.renewing = undefined));
    await Promise.race([this.renewing, delay(MAX_WAIT_MS, undefined, { ref: false })]);
  }

  private async renew(): Promise<void> {
    if (!(await this.store.assertAvailable().then(() => true, () => false))) return;
    const version = await versionOf(this.path);
    if (version === this.version) return;
    try {
      this.content = await this.load(false);
      this.version = version;
      this.problem = undefined;
    } catch (error) {
      // The content of the file stays wrong until the file changes. Other errors may end by themselves.
      if (error instanceof DataDirectoryError) this.version = version;
      const { message } = error as Error;
      if (message !== this.problem) this.store.logger.warn(`${this.warning} ${message}`);
      this.problem = message;
    }
  }
}

/** A text that is another one when the file has been replaced, has other rights, or is missing. */
const versionOf = (path: string): Promise<string> =>
  stat(path).then(({ ino, mtimeMs, size, uid, gid, mode }) => [ino, mtimeMs, size, uid, gid, mode].join(' '), () => 'missing');

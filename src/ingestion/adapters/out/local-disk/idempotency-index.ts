import { createHash } from 'node:crypto';
import { join } from 'node:path';
import Database from 'libsql';
import type { UploadReceipt } from '../../../application/ports/file-storage.port.js';
import { utcDate } from '../../../domain/layout.js';
import { IDEMPOTENCY_PERIOD_MS, isKeptUnderKey } from '../../../domain/idempotency.js';
import { hasCode } from './disk-error.js';
import type { Disk } from './disk.js';
import type { DurableDirectories } from './durable-directories.js';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS uploads (
    scope TEXT PRIMARY KEY, request TEXT NOT NULL, received_at INTEGER NOT NULL,
    upload_id TEXT NOT NULL, size INTEGER, sha256 TEXT
  ) STRICT, WITHOUT ROWID`;

/** An upload that is kept under a scope. */
export interface KeyedUpload extends Omit<UploadReceipt, 'replayed'> {
  readonly scope: string;
  /** Its `requestDigest`. */
  readonly request: string;
  readonly receivedAt: Date;
}

const digestOf = (text: string): string => createHash('sha256').update(text).digest('base64url');

interface Row {
  readonly request: string;
  readonly received_at: number;
  readonly upload_id: string;
  readonly size: number | null;
  readonly sha256: string | null;
}

/** What the index knows of an upload, as far as a repeated request needs it. */
export interface IndexedUpload {
  readonly receipt: UploadReceipt;
  /** Its `requestDigest`. */
  readonly request: string;
}

/**
 * Finds an upload by its scope: a database for each day, all of whose rows stand in index lines too. It can be lost,
 * and costs memory for none of them; a day that is over goes with its file.
 */
export class IdempotencyIndex {
  private readonly days = new Map<string, Database.Database>();
  private opening: Promise<void> | undefined;

  constructor(
    private readonly disk: Disk,
    private readonly directories: DurableDirectories,
    /** Absolute. */
    private readonly directory: string,
  ) {}

  /** Whether any upload was made under a key that may still be known. */
  async isEmpty(): Promise<boolean> {
    const names = await this.disk.readDirectory(this.directory).catch((error: unknown) => {
      if (hasCode(error, 'ENOENT')) return [];
      throw error;
    });
    return !names.some((name) => this.keptDays().includes(dayOf(name)));
  }

  /** Resolves when the databases stand in which `add` keeps uploads from now on. Before an upload's line is written. */
  async open(): Promise<void> {
    if (this.keptDays().every((day) => this.days.has(day))) return;
    this.opening ??= this.openDays().finally(() => (this.opening = undefined));
    await this.opening;
  }

  /** The upload that is kept under a scope now. */
  find(scope: string): IndexedUpload | undefined {
    const key = digestOf(scope);
    for (const day of this.keptDays()) {
      const row = this.days.get(day)?.prepare('SELECT * FROM uploads WHERE scope = ?').get(key) as Row | undefined;
      if (row && isKeptUnderKey(new Date(row.received_at))) return { receipt: receiptOf(row), request: row.request };
    }
    return undefined;
  }

  /** Keeps uploads, of which some may be in it. What is over is passed over. */
  add(uploads: readonly KeyedUpload[]): void {
    for (const [day, database] of this.days) {
      const ofDay = uploads.filter(({ receivedAt }) => utcDate(receivedAt) === day);
      if (ofDay.length === 0) continue;
      const insert = database.prepare('INSERT OR REPLACE INTO uploads VALUES (?, ?, ?, ?, ?, ?)');
      database.transaction(() => {
        for (const { scope, request, receivedAt, uploadId, content } of ofDay) {
          insert.run(digestOf(scope), request, receivedAt.getTime(), uploadId, content?.size ?? null, content?.sha256 ?? null);
        }
      })();
    }
  }

  /** Makes durable what was added. */
  sync(): void {
    for (const database of this.days.values()) database.pragma('wal_checkpoint(TRUNCATE)');
  }

  close(): void {
    for (const database of this.days.values()) database.close();
    this.days.clear();
  }

  /** The newest first. */
  private keptDays(): string[] {
    const now = Date.now();
    return [utcDate(new Date(now)), utcDate(new Date(now - IDEMPOTENCY_PERIOD_MS))];
  }

  private async openDays(): Promise<void> {
    await this.directories.ensure(this.directory);
    for (const day of this.keptDays()) await this.openDay(day);
    await this.removeOver();
  }

  private async removeOver(): Promise<void> {
    for (const [day, database] of this.days) {
      if (this.keptDays().includes(day)) continue;
      this.days.delete(day);
      database.close();
    }
    for (const name of await this.disk.readDirectory(this.directory)) {
      if (!this.keptDays().includes(dayOf(name))) await this.disk.remove(join(this.directory, name));
    }
  }

  private async openDay(day: string): Promise<void> {
    if (this.days.has(day)) return;
    const database = new Database(join(this.directory, `${day}.db`));
    try {
      // A commit that a power cut takes back comes back from the lines: a segment's marker stays until `sync`.
      database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; ${SCHEMA}`);
      await this.disk.syncDirectory(this.directory);
    } catch (error) {
      database.close();
      throw error;
    }
    this.days.set(day, database);
  }
}

const dayOf = (name: string): string => name.slice(0, 10);

const receiptOf = ({ upload_id: uploadId, size, sha256 }: Row): UploadReceipt => ({
  uploadId,
  content: size === null || sha256 === null ? null : { size, sha256 },
  replayed: true,
});

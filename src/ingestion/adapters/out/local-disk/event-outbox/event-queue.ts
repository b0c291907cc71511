import { basename } from 'node:path';
import { MINUTE_MS } from '../../../../../common/durations.js';
import { decodeIndexLine } from '../../../../application/line-decoding.js';
import { MAX_EVENTS_BYTES, type OutboxBatch, type OutboxEvent } from '../../../../application/ports/event-outbox.port.js';
import { dayDirectory } from '../../../../domain/layout.js';
import { UPLOAD_ID } from '../../../../domain/layout-names.js';
import { UPLOAD_KINDS, type Upload } from '../../../../domain/upload.js';
import type { StoreDirectory } from '../store-directory.js';
import type { SegmentReader } from '../stored-uploads/segment-reader.js';
import { type EventEntries, type EventEntry, type EventsInFlight, EVENTS, isRemovedFile, removedPath } from './event-entries.js';
import { decodeRemovedUpload } from './removed-uploads.js';

/** To save memory, one listing of `events/` keeps at most this many entries of files that get no more lines. */
const MAX_KNOWN = 10_000;
/** If more files than this can't be read, the fault isn't in the files. */
const MAX_UNREADABLE = 10;
const ID_LENGTH = 36;
/**
 * How many bytes of lines are decoded at a time: few enough to hold up other work for only a fraction of a millisecond.
 */
const BYTES_AT_ONCE = 64 * 1024;

/** The unconfirmed events of an open store, in batches. All events of a batch come from one file. */
export class EventQueue {
  private readonly entries: EventEntries;
  private known = new Set<string>();
  private readonly warnedOf = new Set<string>();
  /** The files that could not be read: since when, and when each is tried again, by `performance.now()`. */
  private readonly unreadable = new Map<string, { since: Date; until: number }>();

  constructor(private readonly store: StoreDirectory) {
    this.entries = store.events;
  }

  /**
   * Returns the next batch of at most `limit` events; undefined if there are none, or the outbox was never opened. Goes
   * on with other files when one can't be read, and tries that one again a minute later.
   *
   * @throws StoreAwayError; an error of the file system, when more than ten files can't be read.
   */
  next(limit: number): Promise<OutboxBatch | undefined> {
    return this.entries.jobs.run(async () => {
      if (!this.entries.isBegun) return undefined;
      this.store.presence.assertHere(this.entries.parts);
      // If the last batch wasn't confirmed, reads its events again; reads other files only if its file has none
      // left, or can't be read.
      const { inFlight } = this.entries;
      const repeated = inFlight && this.isDue(inFlight.id) ? await this.readableBatchOf(inFlight.id, limit) : undefined;
      return repeated ?? (await this.oldest(limit));
    });
  }

  /** When reading a file failed first, of those that still can't be read. */
  get unreadableSince(): Date | undefined {
    // Maps keep the order of their keys.
    return this.unreadable.values().next().value?.since;
  }

  private isDue(id: string): boolean {
    return (this.unreadable.get(id)?.until ?? -Infinity) <= performance.now();
  }

  private async oldest(limit: number): Promise<OutboxBatch | undefined> {
    for (;;) {
      for (const id of this.entries.takeNewIds()) this.known.add(id);
      const open = this.openIds();
      const batch = await this.firstBatch((id) => !open.has(id), limit);
      if (batch) return batch;
      if (!this.entries.mustList) return this.firstBatch((id) => open.has(id), limit);
      await this.listEntries();
    }
  }

  private async firstBatch(isWanted: (id: string) => boolean, limit: number): Promise<OutboxBatch | undefined> {
    for (const id of this.known) {
      const batch = this.isDue(id) && isWanted(id) ? await this.readableBatchOf(id, limit) : undefined;
      if (batch) return batch;
    }
    return undefined;
  }

  private async readableBatchOf(id: string, limit: number): Promise<OutboxBatch | undefined> {
    try {
      const batch = await this.batchOf(id, limit);
      this.unreadable.delete(id);
      return batch;
    } catch (error) {
      this.store.presence.assertHere(this.entries.parts);
      const since = this.unreadable.get(id)?.since ?? new Date();
      if (!this.unreadable.has(id) && this.unreadable.size >= MAX_UNREADABLE) throw error;
      this.unreadable.set(id, { since, until: performance.now() + MINUTE_MS });
      this.warnOnce(`${id} failed`, `Reading the events of ${this.store.at(EVENTS, id)} failed; going on with others, and retrying each minute.`, error);
      return undefined;
    }
  }

  private openIds(): Set<string> {
    return new Set([...this.store.openSegments.keys()].map((path) => basename(path, '.ndjson')));
  }

  private async listEntries(): Promise<void> {
    const open = this.openIds();
    const foundOpen = new Set<string>();
    let complete: string[] = [];
    const dropNewest = (): void => {
      complete = [...new Set(complete)].sort();
      if (complete.length > MAX_KNOWN) this.entries.mustList = true;
      complete.splice(MAX_KNOWN);
    };
    for await (const names of this.entries.names()) {
      for (const name of names) {
        // A file of removed uploads counts as an entry, too: after a power cut, its entry may be missing.
        const id = isRemovedFile(name) ? name.slice(0, ID_LENGTH) : name;
        if (open.has(id)) foundOpen.add(id);
        else if (this.isEntry(id)) complete.push(id);
      }
      if (complete.length > 2 * MAX_KNOWN) dropNewest();
    }
    dropNewest();
    this.known = new Set([...complete, ...[...foundOpen].sort()]);
  }

  private isEntry(name: string): boolean {
    if (this.warnedOf.has(name)) return false;
    if (UPLOAD_ID.test(name)) return true;
    this.warnOnce(name, `${this.store.at(EVENTS, name)} is not an entry of this store; leaving it alone.`);
    return false;
  }

  private async batchOf(id: string, limit: number): Promise<OutboxBatch | undefined> {
    const entry = (await this.entries.read(id)) ?? (await this.repaired(id));
    if (!entry) {
      // `assertHere` throws if `events/` is away: then the entry only looks missing.
      this.store.presence.assertHere(this.entries.parts);
      this.forget(id);
      return undefined;
    }
    const open = this.store.openSegments.get(entry.lines);
    if (open && open.durableLength <= entry.offset) return undefined;
    const file = await this.store.segments.open(entry.lines);
    if (!file) {
      // `assertHere` throws if the store's volume has gone away: then the file only looks missing.
      this.store.presence.assertHere();
      if (open) return undefined;
      const path = this.store.at(entry.lines);
      // An empty file isn't foreign: a removal of all uploads of a segment leaves the segment empty.
      const isForeign = (await this.store.disk.plainFileSize(path)) !== 0 && (await this.store.disk.isNameTaken(path));
      if (isForeign) this.warnOnce(id, `${path} is not a file of this store, so the events of its uploads are not delivered.`);
      else await this.entries.remove(id);
      this.forget(id);
      return undefined;
    }
    try {
      return await this.read(id, entry, file, limit, open === undefined);
    } finally {
      await file.close();
    }
  }

  private async read(id: string, entry: EventEntry, file: SegmentReader, limit: number, isComplete: boolean): Promise<OutboxBatch | undefined> {
    const decode = entry.lines === removedPath(id) ? decodeRemovedUpload : decodeStored;
    const events: OutboxEvent[] = [];
    let { offset } = entry;
    const found = (): OutboxBatch => this.inFlight(events, { id, end: offset, isLast: isComplete && offset >= file.length }, entry.lines);
    for (let begin: number | undefined; offset < file.length && events.length < limit; ) {
      // Once there are events, a long line that follows is left to the next batch, without reading all of it.
      const lines = await file.linesFrom(offset, BYTES_AT_ONCE, begin === undefined ? Infinity : MAX_EVENTS_BYTES);
      if (lines.length === 0) break;
      for (const line of lines) {
        if (events.length === limit || (begin !== undefined && line.end - begin > MAX_EVENTS_BYTES)) return found();
        // Awaits only the event of a long line, which is a promise. Other awaits would cost a fifth of decoding a line.
        const decoded = decode(line.bytes);
        const event = decoded instanceof Promise ? await decoded : decoded;
        if (event) {
          events.push(event);
          begin ??= line.begin;
        } else {
          this.warnOnce(entry.lines, `${this.store.at(entry.lines)} has a line that is not valid, so its event is not delivered.`);
        }
        offset = line.end;
      }
    }
    if (events.length > 0) return found();
    if (!isComplete) return undefined;
    await this.entries.remove(id);
    this.forget(id);
    return undefined;
  }

  private inFlight(events: readonly OutboxEvent[], batch: EventsInFlight, lines: string): OutboxBatch {
    this.entries.inFlight = batch;
    const { id } = batch;
    const confirm = () =>
      this.entries.jobs.run(async () => {
        // Does nothing if `next` has returned another batch since, or this batch was already confirmed or dropped.
        if (this.entries.inFlight !== batch) return;
        if (batch.isLast) await this.entries.remove(id);
        else await this.entries.replace(id, { lines, offset: batch.end });
        this.entries.inFlight = undefined;
        // Moves a file that still gets lines behind the other files, so that these have their turn.
        if (batch.isLast || this.openIds().has(id)) this.known.delete(id);
        if (!batch.isLast) this.known.add(id);
      });
    return { events, confirm };
  }

  private async repaired(id: string): Promise<EventEntry | undefined> {
    const path = this.store.at(EVENTS, id);
    const isTaken = await this.store.disk.isNameTaken(path);
    const lines = await this.linesOf(id, isTaken);
    if (lines === undefined) {
      if (isTaken) this.warnOnce(id, `${path} is not an entry of this store; leaving it alone.`);
      return undefined;
    }
    if (isTaken) this.warnOnce(`${id} is repaired`, `${path} is damaged; the events of ${lines} are delivered again.`);
    const entry = { lines, offset: 0 };
    await this.entries.replace(id, entry);
    return entry;
  }

  private async linesOf(id: string, isSegment: boolean): Promise<string | undefined> {
    const days = isSegment ? [...(await this.store.segments.days())] : [];
    const candidates = [removedPath(id), ...UPLOAD_KINDS.flatMap((kind) => days.map((day) => `${dayDirectory(kind, day)}/${id}.ndjson`))];
    for (const path of candidates) if ((await this.store.disk.plainFileSize(this.store.at(path))) !== undefined) return path;
    return undefined;
  }

  private forget(id: string): void {
    this.known.delete(id);
    this.unreadable.delete(id);
    if (this.entries.inFlight?.id === id) this.entries.inFlight = undefined;
  }

  private warnOnce(about: string, message: string, error?: unknown): void {
    if (!this.warnedOf.has(about)) this.store.logger.warn(message, error);
    this.warnedOf.add(about);
  }
}

function decodeStored(line: Buffer): OutboxEvent | undefined | Promise<OutboxEvent | undefined> {
  const upload = decodeIndexLine(line);
  return upload instanceof Promise ? upload.then(storedEvent) : storedEvent(upload);
}

const storedEvent = (upload: Upload | undefined): OutboxEvent | undefined => (upload && isComplete(upload) ? { type: 'stored', upload } : undefined);

/** Whether an upload's id, kind, customer and time are valid, in case someone has edited its index line. */
const isComplete = ({ uploadId, kind, customerId, receivedAt }: Upload): boolean =>
  UPLOAD_ID.test(uploadId) && UPLOAD_KINDS.includes(kind) && typeof customerId === 'string' && !Number.isNaN(receivedAt.getTime());

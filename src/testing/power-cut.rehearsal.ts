import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { LineMayRemainError } from '../ingestion/adapters/out/local-disk/index-log.js';
import { LocalDiskFileStorage } from '../ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
import type { EventOutbox, OutboxEvent } from '../ingestion/application/ports/event-outbox.port.js';
import type { UploadDraft } from '../ingestion/application/ports/file-storage.port.js';
import { indexLine } from '../ingestion/domain/layout.js';
import { type DiskDefects, ForgetfulDisk } from './forgetful-disk.js';
import { Random } from './random.js';
import { anUploadDraft, storeUpload } from './upload-draft.builder.js';

const ROOT = '/store';
const MAX_CUTS = 3;
const MAX_CALLERS = 12;
/**
 * Two limits for the number of operations until a power cut, of which one is picked at random. With the low one, the
 * cut comes during a boot or soon after it.
 */
const MAX_OPERATIONS = [80, 1_000] as const;
const CUSTOMERS = ['c0', 'c1', 'c2', 'c3'] as const;
const SHARE_OF_ERASURES = 0.1;

export interface PowerCutReport {
  readonly cuts: number;
  readonly acknowledged: number;
  readonly removed: number;
  /** The number of completed removals of all uploads of a customer. */
  readonly erasures: number;
  readonly refused: number;
  /**
   * One sentence for each acknowledged upload whose index line is missing or changed. The line may be missing once the
   * upload's removal has begun.
   */
  readonly lost: readonly string[];
  /** The number of delivered events. `deliveredAgain` counts those that had been delivered before. */
  readonly delivered: number;
  readonly deliveredAgain: number;
  /**
   * One sentence for each of these:
   *
   * - an event that is missing, is for an upload that failed, or came before the event of an earlier line of its
   *   segment
   * - an event that came again in the same boot after it was confirmed, unless the disk could fail
   * - a file left in `events/`
   */
  readonly eventErrors: readonly string[];
  readonly halfShown: readonly string[];
}

/**
 * Stores and removes uploads on a `ForgetfulDisk`, and delivers their events, until the power is cut; one to three
 * times in a row. Then compares the disk and the delivered events with the acknowledged uploads. The seed determines
 * the operations and the cuts.
 */
export async function rehearsePowerCut(seed: number, defects: DiskDefects = {}): Promise<PowerCutReport> {
  const random = new Random(seed);
  const ledger = new Ledger();
  const receiver = new Receiver();
  const cuts = 1 + random.below(MAX_CUTS);
  let disk = new ForgetfulDisk(random, defects);
  for (let cut = 1; cut <= cuts; cut++) {
    disk.cutAfter(1 + random.below(random.pick(MAX_OPERATIONS)));
    await Promise.race([load(disk, random, ledger, receiver), disk.cut]);
    disk = disk.afterCut();
  }
  await open(disk, 1e6);
  const first = ledger.compare(disk.files());
  // The power is cut once more, because the repairs that a boot makes must be durable too.
  disk = disk.afterCut();
  const storage = await open(disk, 1e6);
  const second = ledger.compare(disk.files());
  const lines = segmentsOf(disk.files());
  await storage.eventOutbox.open();
  await receiver.receiveAll(storage.eventOutbox);
  const eventErrors = [...receiver.findings(lines, ledger), ...leftInEvents(disk.files())];
  const both = <Finding>(one: readonly Finding[], other: readonly Finding[]) => [...new Set([...one, ...other])];
  return {
    cuts,
    acknowledged: ledger.acknowledged.size,
    removed: ledger.removed.size,
    erasures: ledger.erasures,
    refused: ledger.refused.size,
    delivered: receiver.delivered,
    deliveredAgain: receiver.deliveredAgain,
    eventErrors,
    lost: both(first.lost, second.lost),
    halfShown: both(first.halfShown, second.halfShown),
  };
}

const open = (disk: ForgetfulDisk, maxSegmentBytes: number): Promise<LocalDiskFileStorage> =>
  LocalDiskFileStorage.open({ directory: ROOT, disk, maxSegmentBytes, maxJournalBytes: 4_000, logger: { warn: () => undefined } });

async function load(disk: ForgetfulDisk, random: Random, ledger: Ledger, receiver: Receiver): Promise<never> {
  const storage = await open(disk, random.pick([1e6, 4_000]));
  ledger.forgetInProgress();
  await storage.eventOutbox.open();
  disk.failureRate = random.pick([0, 0, 0.03]);
  const shareOfFiles = random.pick([0, 0.6, 1]);
  const shareOfRemovals = random.pick([0, 0, 0.1, 0.4]);
  const callers = Array.from<unknown, Promise<never>>({ length: 1 + random.below(MAX_CALLERS) }, async () => {
    for (;;) {
      const customerId = random.pick(CUSTOMERS);
      if (!random.chance(shareOfRemovals)) await ledger.enter(storage, someDraft(random, customerId, shareOfFiles), customerId);
      else if (random.chance(SHARE_OF_ERASURES)) await ledger.erase(storage, customerId);
      else await ledger.remove(storage, random);
    }
  });
  const receiving = receiver.receive(storage.eventOutbox, random, ledger, disk.failureRate === 0);
  return Promise.race([...callers, receiving]);
}

function someDraft(random: Random, customerId: string, shareOfFiles: number): UploadDraft {
  const draft = anUploadDraft().with({
    kind: random.pick(['historical', 'nowcast']),
    customerId,
    receivedAt: new Date(Date.UTC(2026, 0, 1 + random.below(2))),
    additionalData: random.pick([null, 'x'.repeat(random.below(2_000))]),
  });
  if (!random.chance(shareOfFiles)) return draft.build();
  return draft.file(...Array.from({ length: random.below(4) }, () => random.bytes(random.below(1_500)))).build();
}

class Ledger {
  readonly acknowledged = new Map<string, string>();
  /** The ids of failed uploads, without those whose index line may remain (`LineMayRemainError`). */
  readonly refused = new Set<string>();
  /**
   * The ids of uploads whose removal has begun, or which were being stored while their customer was erased. Until the
   * removal is acknowledged, a boot may find the upload or not.
   */
  readonly removing = new Set<string>();
  private readonly customers = new Map<string, string>();
  private readonly storing = new Set<string>();
  /** The customer of each erasure in progress. */
  private readonly erasing: string[] = [];
  erasures = 0;
  private changed = (): void => undefined;
  private change = this.nextChange();
  readonly removed = new Set<string>();

  async ended(): Promise<void> {
    await this.change;
  }

  /** Must be called after a power cut: what was in progress never ends. */
  forgetInProgress(): void {
    this.storing.clear();
    this.erasing.length = 0;
  }

  async enter(storage: LocalDiskFileStorage, draft: UploadDraft, customerId: string): Promise<void> {
    const { uploadId } = draft;
    this.customers.set(uploadId, customerId);
    this.storing.add(uploadId);
    if (this.erasing.includes(customerId)) this.removing.add(uploadId);
    try {
      this.acknowledged.set(uploadId, indexLine(await storeUpload(storage, draft)));
    } catch (error) {
      if (!(error instanceof Error && error.cause instanceof LineMayRemainError)) this.refused.add(uploadId);
    }
    this.storing.delete(uploadId);
    this.tellChange();
  }

  /** Removes all uploads of a customer. Those that were acknowledged before must then be gone. */
  async erase(storage: LocalDiskFileStorage, customerId: string): Promise<void> {
    const ofCustomer = (ids: Iterable<string>): string[] => [...ids].filter((id) => this.customers.get(id) === customerId);
    const before = ofCustomer(this.acknowledged.keys());
    for (const id of [...before, ...ofCustomer(this.storing)]) this.removing.add(id);
    this.erasing.push(customerId);
    try {
      await storage.storedUploads.removeAll({ customerId });
      for (const id of before) this.removed.add(id);
      this.erasures += 1;
    } catch {
      // As with `remove`, each upload must then be complete or completely gone after the next boot.
    }
    this.erasing.splice(this.erasing.indexOf(customerId), 1);
    this.tellChange();
  }

  async remove(storage: LocalDiskFileStorage, random: Random): Promise<void> {
    const ids = [...this.acknowledged.keys()];
    const id = ids[random.below(Math.max(1, ids.length))];
    if (id === undefined) return;
    this.removing.add(id);
    try {
      await storage.storedUploads.remove(id);
      this.removed.add(id);
    } catch {
      // A removal may fail. After the next boot, the upload must then be complete or completely gone.
    }
    this.tellChange();
  }

  private tellChange(): void {
    this.changed();
    this.change = this.nextChange();
  }

  private nextChange(): Promise<void> {
    return new Promise((resolve) => (this.changed = resolve));
  }

  compare(files: Map<string, Buffer>): { lost: string[]; halfShown: string[] } {
    const { lines, halfShown } = readStore(files);
    const isAllowed = (id: string, line: string): boolean => lines.get(id) === line || (this.removing.has(id) && !lines.has(id));
    const lost = [...this.acknowledged].filter(([id, line]) => !isAllowed(id, line));
    const shown = [...this.refused].filter((id) => lines.has(id));
    const back = [...this.removed].filter((id) => lines.has(id));
    return {
      lost: lost.map(([id]) => `${id} is lost`),
      halfShown: [...halfShown, ...shown.map((id) => `${id} was refused and is shown`), ...back.map((id) => `${id} was removed and is shown`)],
    };
  }
}

class Receiver {
  private readonly firstDelivered = new Map<string, number>();
  private readonly repeated: string[] = [];
  delivered = 0;

  get deliveredAgain(): number {
    return this.delivered - this.firstDelivered.size;
  }

  async receive(outbox: EventOutbox, random: Random, ledger: Ledger, isHealthy: boolean): Promise<never> {
    const confirmed = new Set<string>();
    for (;;) {
      const change = ledger.ended();
      try {
        const batch = await outbox.next(1 + random.below(5));
        if (!batch) await change;
        else if (random.chance(0.9)) {
          const ids = this.take(batch.events);
          if (isHealthy) this.repeated.push(...ids.filter((id) => confirmed.has(id)));
          await batch.confirm();
          for (const id of ids) confirmed.add(id);
        }
      } catch {
        await change;
      }
    }
  }

  async receiveAll(outbox: EventOutbox): Promise<void> {
    for (let batch = await outbox.next(500); batch; batch = await outbox.next(500)) {
      this.take(batch.events);
      await batch.confirm();
    }
  }

  findings(segments: readonly (readonly string[])[], { acknowledged, removing, removed, refused }: Ledger): string[] {
    const shown = new Set(segments.flat());
    const gone = [...removing].filter((id) => acknowledged.has(id) && (removed.has(id) || !shown.has(id)));
    const disordered = segments.flatMap((ids) => ids.filter((id, index) => index > 0 && this.order(id) < this.order(ids[index - 1] ?? '')));
    return [
      ...[...shown].filter((id) => !this.firstDelivered.has(id)).map((id) => `${id} was not delivered`),
      ...gone.filter((id) => !this.firstDelivered.has(`${id}-removed`)).map((id) => `${id} was not delivered as removed`),
      ...[...refused].filter((id) => this.firstDelivered.has(id)).map((id) => `${id} was refused and delivered`),
      ...disordered.map((id) => `${id} was delivered before the line in front of it`),
      ...this.repeated.map((id) => `${id} was delivered again although it was confirmed`),
    ];
  }

  private order(id: string): number {
    return this.firstDelivered.get(id) ?? Infinity;
  }

  private take(events: readonly OutboxEvent[]): string[] {
    const ids = events.map((event) => (event.type === 'stored' ? event.upload.uploadId : `${event.uploadId}-removed`));
    for (const id of ids) {
      this.delivered += 1;
      if (!this.firstDelivered.has(id)) this.firstDelivered.set(id, this.delivered);
    }
    return ids;
  }
}

const segmentsOf = (files: Map<string, Buffer>): string[][] =>
  [...files].filter(([path]) => path.startsWith(`${ROOT}/uploads/`)).map(([, segment]) => segment.toString().split('\n').flatMap((text) => parse(text)?.upload_id ?? []));

const leftInEvents = (files: Map<string, Buffer>): string[] => [...files.keys()].filter((path) => path.startsWith(`${ROOT}/events/`)).map((path) => `${path} is left over`);

function readStore(files: Map<string, Buffer>): { lines: Map<string, string>; halfShown: string[] } {
  const lines = new Map<string, string>();
  const halfShown: string[] = [];
  const contents = new Map([...files].filter(([path]) => path.startsWith(`${ROOT}/files/`)));
  for (const [path, segment] of files) {
    if (/^\/store\/(staging|pending)\//.test(path) && !path.endsWith('.emptied')) halfShown.push(`${path} is left over`);
    if (!path.startsWith(`${ROOT}/uploads/`)) continue;
    // An empty segment needs a marker. The store keeps such a segment for some minutes after the last line was removed.
    if (segment.length === 0 && !files.has(`${ROOT}/pending/${basename(path, '.ndjson')}.emptied`)) halfShown.push(`${path} is empty`);
    const texts = segment.toString().split('\n');
    if (texts.pop() !== '') halfShown.push(`${path} ends in a torn line`);
    for (const text of texts) {
      const line = parse(text);
      if (!line) halfShown.push(`${path} has a line that is no JSON`);
      else if (lines.has(line.upload_id)) halfShown.push(`${line.upload_id} has two lines`);
      else {
        lines.set(line.upload_id, text);
        if (line.content_path !== null && !takeBytes(contents, line)) halfShown.push(`${line.upload_id} has not its bytes`);
      }
    }
  }
  return { lines, halfShown: [...halfShown, ...[...contents.keys()].map((path) => `${path} has no line`)] };
}

interface Line {
  readonly upload_id: string;
  readonly content_path: string | null;
  readonly content_size: number | null;
  readonly content_sha256: string | null;
}

function parse(text: string): Line | undefined {
  try {
    return JSON.parse(text) as Line;
  } catch {
    return undefined;
  }
}

function takeBytes(contents: Map<string, Buffer>, line: Line): boolean {
  const path = `${ROOT}/${line.content_path ?? ''}`;
  const bytes = contents.get(path);
  contents.delete(path);
  if (bytes?.length !== line.content_size) return false;
  return createHash('sha256').update(bytes).digest('hex') === line.content_sha256;
}

import { z } from 'zod';
import { DAY_MS, MINUTE_MS } from '../../../../../common/durations.js';
import { parseJson } from '../../../../../common/text.js';
import { UPLOAD_KINDS, type UploadKind } from '../../../../domain/upload.js';
import type { Bucket } from '../bucket.js';
import { CURSOR } from '../keys.js';
import { dateAt, type Day, endOf, NAME_TOLERANCE_MS, parseName, uploadIdIn } from '../segment-names.js';

/** A segment is assumed to have no confirmed event if the time in its name is later than this after the watermark. */
const CONFIRMED_AHEAD_MS = 5 * MINUTE_MS;
const SHORT_LENGTH = 16;

const PART = z.object({
  /** Where the last line with a confirmed event begins in the segment, in bytes. */
  offset: z.number().int().nonnegative(),
  upload_id: z.string(),
  /** Ids of some confirmed uploads in the lines before, in their order. */
  earlier: z.array(z.string()).optional(),
});
export type Part = Readonly<z.infer<typeof PART>>;

const POSITION = z.object({
  /** In milliseconds since 1970. Segments of earlier times have no event left to deliver, unless announced as late. */
  watermark: z.number(),
  /** Short names (`shortName`), without separators, of confirmed segments with times from the watermark on. */
  told: z.string(),
  targets: z.array(z.string()),
});

const CURSOR_CONTENT = z.object({
  /** The id of the process that holds the cursor; null if any process may take it. */
  teller: z.string().nullable(),
  /** Counts the writes of the cursor, so that no two of its versions have the same bytes. */
  writes: z.number(),
  positions: z.object({ historical: POSITION, nowcast: POSITION }),
  parts: z.record(z.string(), PART),
  /** For objects in `events/` that were confirmed in part: the number of confirmed events, by the object's key. */
  counts: z.record(z.string(), z.number().int()),
  /** Until when confirmed segments that may still be announced are remembered, by short name; in ms since 1970. */
  late: z.record(z.string(), z.number()),
});

/** A segment's name in the cursor: the time and the last 48 bits of the UUID in the full name, in 16 characters. */
export function shortName(segment: string): string {
  const digits = uploadIdIn(segment).replaceAll('-', '');
  return Buffer.from(digits.slice(0, 12) + digits.slice(20), 'hex').toString('base64url');
}

const timeOfShort = (short: string): number => Buffer.from(short, 'base64url').readUIntBE(0, 6);

export interface Position {
  watermark: number;
  confirmed: Set<string>;
  targets: Set<string>;
}

/** The content of `events/cursor`: which events the receiver has confirmed, and which process delivers them. */
export interface Cursor {
  holder: string | null;
  writes: number;
  readonly positions: Readonly<Record<UploadKind, Position>>;
  readonly parts: Map<string, Part>;
  readonly counts: Map<string, number>;
  readonly late: Map<string, number>;
}

/**
 * Makes the first cursor of a bucket. No events are delivered for the segments in `confirmed`, nor for those with times
 * before `watermark`, unless they are announced as late.
 */
export function newCursor(watermark: number, confirmed: Readonly<Record<UploadKind, readonly string[]>>): Cursor {
  const positionOf = (kind: UploadKind): Position => ({ watermark, confirmed: new Set(confirmed[kind].map(shortName)), targets: new Set() });
  return {
    holder: null,
    writes: 0,
    positions: { historical: positionOf('historical'), nowcast: positionOf('nowcast') },
    parts: new Map(),
    counts: new Map(),
    late: new Map(),
  };
}

export function cursorBytes({ holder, writes, positions, parts, counts, late }: Cursor): Buffer {
  const plain = ({ watermark, confirmed, targets }: Position) => ({ watermark, told: [...confirmed].join(''), targets: [...targets] });
  const content: z.infer<typeof CURSOR_CONTENT> = {
    teller: holder,
    writes,
    positions: { historical: plain(positions.historical), nowcast: plain(positions.nowcast) },
    parts: Object.fromEntries(parts),
    counts: Object.fromEntries(counts),
    late: Object.fromEntries(late),
  };
  return Buffer.from(JSON.stringify(content));
}

/** Parses the content of the cursor. Throws an Error if the bytes are anything else. */
export function parseCursor(bytes: Buffer): Cursor {
  const { success, data } = CURSOR_CONTENT.safeParse(parseJson(bytes));
  if (!success) throw new Error(`${CURSOR} is damaged, so no events are delivered. Restore it, or remove it and restart the service: then only events from that time on are delivered.`);
  const { teller: holder, writes, positions, parts, counts, late } = data;
  const live = ({ watermark, told, targets }: z.infer<typeof POSITION>): Position => ({
    watermark,
    confirmed: new Set(told.match(new RegExp(`.{${SHORT_LENGTH}}`, 'g'))),
    targets: new Set(targets),
  });
  return {
    holder,
    writes,
    positions: { historical: live(positions.historical), nowcast: live(positions.nowcast) },
    parts: new Map(Object.entries(parts)),
    counts: new Map(Object.entries(counts)),
    late: new Map(Object.entries(late)),
  };
}

/**
 * Whether the cursor names a segment as confirmed. False for segments that compaction created, and for most with times
 * before the watermark.
 *
 * @param segment the segment's key, or the id of its only upload.
 */
export const isConfirmed = ({ positions, late }: Cursor, segment: string): boolean => {
  const short = shortName(segment);
  return late.has(short) || UPLOAD_KINDS.some((kind) => positions[kind].confirmed.has(short));
};

/** Whether, according to the watermark, the events of all, none, or maybe some of a day's segments were confirmed. */
export function stateOf(day: Day, { watermark }: Pick<Position, 'watermark'>): 'unconfirmed' | 'confirmed' | 'partly' {
  if (watermark >= endOf(day) + NAME_TOLERANCE_MS) return 'confirmed';
  return watermark <= endOf(day) - DAY_MS - CONFIRMED_AHEAD_MS ? 'unconfirmed' : 'partly';
}

/** Moves the watermark forward, never back, and forgets the confirmed segments before the watermark. */
export function advance(position: Position, watermark: number): void {
  if (watermark <= position.watermark) return;
  position.watermark = watermark;
  for (const short of position.confirmed) if (timeOfShort(short) < watermark) position.confirmed.delete(short);
  for (const target of position.targets) {
    const date = /\/date=([^/]*)\//.exec(target)?.[1];
    if (date !== undefined && watermark >= endOf({ date }) + NAME_TOLERANCE_MS) position.targets.delete(target);
  }
}

/**
 * Whether the events of some segments of a day may be confirmed and those of others not. Compaction must not merge such
 * segments. False if the bucket has no cursor.
 *
 * @throws errors of the bucket; an Error if the cursor is damaged.
 */
export async function isPartlyConfirmed(bucket: Bucket, day: Day): Promise<boolean> {
  const found = await bucket.read(CURSOR);
  return found !== undefined && stateOf(day, parseCursor(found.bytes).positions[day.kind]) === 'partly';
}

/**
 * The days to which segments of one kind may belong if the times in their names are from `begin` to `end`, in
 * milliseconds since 1970 and at most a day apart.
 */
export const daysBetween = (kind: UploadKind, begin: number, end: number): Day[] => {
  const dates = new Set([begin - NAME_TOLERANCE_MS, begin, end, end + NAME_TOLERANCE_MS].map(dateAt));
  return [...dates].sort().map((date) => ({ kind, date }));
};

/** Whether a segment's name is such as uploads that aren't slow (`isSlow`) give. */
export const isTimed = (day: Day, key: string): boolean => {
  const { origin, isSlow } = parseName(day, key);
  return origin === 'original' && !isSlow;
};

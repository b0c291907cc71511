import { z } from 'zod';
import { DAY_MS } from '../../../../../common/durations.js';
import { parseJson } from '../../../../../common/text.js';
import { uuidAt } from '../../../../../common/uuid.js';
import { idempotencyScope } from '../../../../domain/idempotency.js';
import { isContentOf } from '../../../../domain/layout-names.js';
import { UPLOAD_KINDS, type Upload } from '../../../../domain/upload.js';
import type { RemovedUpload } from '../event-outbox/removed-uploads.js';
import { claimKey, MARKERS } from '../keys.js';

/** Claims of uploads older than this are assumed to be gone. One that isn't does no harm: it has expired after a day. */
const CLAIMED_FOR_MS = 7 * DAY_MS;
const SUFFIX = '.removal';

const REMNANT = z.object({
  upload_id: z.string(),
  /** `customer_id` and `segment` are missing in markers of earlier versions of the service. */
  customer_id: z.string().optional(),
  segment: z.string().optional(),
  content_path: z.string().nullable(),
  /** The key of the upload's claim; null if there is none, or if it is assumed to be gone after seven days. */
  claim: z.string().nullable(),
  /** The data of the removal's event; missing if the event outbox was never opened. */
  told: z.object({ kind: z.enum(UPLOAD_KINDS), customer_id: z.string(), received_at: z.string().optional(), removed_at: z.string() }).optional(),
}).refine(({ upload_id: uploadId, content_path: path }) => path === null || isContentOf(uploadId, path));

/**
 * Work that is left when an upload's index line is removed: its file, its claim and its event, or only some of these.
 */
export type Remnant = Readonly<z.infer<typeof REMNANT>>;

const REMOVAL = z.object({ removed: z.array(REMNANT) });

/**
 * The remnant of an upload whose line is removed from `segment`; undefined if nothing is left to do.
 *
 * @param removedAt the time of the removal, for its event; undefined if no event is to be delivered.
 */
export function remnantOf(upload: Upload, segment: string, removedAt?: Date): Remnant | undefined {
  const { uploadId, kind, customerId, content, receivedAt } = upload;
  const scope = idempotencyScope(upload);
  const isClaimed = scope !== null && Date.now() - receivedAt.getTime() < CLAIMED_FOR_MS;
  if (!content && !isClaimed && !removedAt) return undefined;
  const event = removedAt && { kind, customer_id: customerId, received_at: receivedAt.toISOString(), removed_at: removedAt.toISOString() };
  return { upload_id: uploadId, customer_id: customerId, segment, content_path: content?.path ?? null, claim: isClaimed ? claimKey(scope) : null, ...(event && { told: event }) };
}

/** The data of the events of removed uploads. */
export const removedUploadsOf = (remnants: readonly Remnant[]): RemovedUpload[] =>
  remnants.flatMap(({ upload_id, told: event }) => (event ? { upload_id, ...event } : []));

/**
 * A new key for a marker of removals. The marker exists from before the first index line is removed until the files are
 * removed, the claims are freed and the events are written.
 */
export const newRemovalKey = (time: number): string => `${MARKERS}${uuidAt(new Date(time))}${SUFFIX}`;
/** The id of a removal of uploads, from the key of its marker. */
export const removalIdOf = (key: string): string => key.slice(MARKERS.length, -SUFFIX.length);
export const isRemovalKey = (key: string): boolean => key.startsWith(MARKERS) && key.endsWith(SUFFIX);

export const removalBytes = (removed: readonly Remnant[]): Buffer => Buffer.from(JSON.stringify({ removed }));

/** The remnants that a marker of removals lists; undefined if the bytes are anything else. */
export const parseRemoval = (bytes: Buffer): readonly Remnant[] | undefined => REMOVAL.safeParse(parseJson(bytes)).data?.removed;

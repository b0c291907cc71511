import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { parseJson } from '../../../../application/line-text.js';
import { idempotencyScope } from '../../../../domain/idempotency.js';
import type { Upload } from '../../../../domain/upload.js';
import { claimKey, MARKERS } from '../keys.js';

/** Claims are removed 25 hours after they were written, or later if no process compacts. In milliseconds. */
const CLAIMED_FOR_MS = 7 * 24 * 60 * 60_000;
const SUFFIX = '.removal';

const REMNANT = z.object({
  upload_id: z.string(),
  /** Path of the upload's file; null for an upload without a file. */
  content_path: z.string().startsWith('files/').nullable(),
  /** Key of the claim of the upload's idempotency key; null if there is none. */
  claim: z.string().nullable(),
});

/** What is left of an upload when its line was removed. */
export type Remnant = Readonly<z.infer<typeof REMNANT>>;

const REMOVAL = z.object({ removed: z.array(REMNANT) });

/** What will be left of an upload; undefined if nothing will. */
export function remnantOf(upload: Upload): Remnant | undefined {
  const { uploadId, content, receivedAt } = upload;
  const scope = idempotencyScope(upload);
  const isClaimed = scope !== null && Date.now() - receivedAt.getTime() < CLAIMED_FOR_MS;
  if (!content && !isClaimed) return undefined;
  return { upload_id: uploadId, content_path: content?.path ?? null, claim: isClaimed ? claimKey(scope) : null };
}

/** The key of a marker of removals, which exists from before the first line is removed until nothing is left. */
export const newRemovalKey = (): string => `${MARKERS}${randomUUID()}${SUFFIX}`;
export const isRemovalKey = (key: string): boolean => key.startsWith(MARKERS) && key.endsWith(SUFFIX);

export const removalBytes = (removed: readonly Remnant[]): Buffer => Buffer.from(JSON.stringify({ removed }));

/** What a marker says; undefined if the bytes aren't a marker of removals. */
export const parseRemoval = (bytes: Buffer): readonly Remnant[] | undefined => REMOVAL.safeParse(parseJson(bytes)).data?.removed;

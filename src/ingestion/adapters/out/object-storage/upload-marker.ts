import { z } from 'zod';
import { parseJson } from '../../../../common/text.js';
import { isContentOf } from '../../../domain/layout-names.js';
import { MARKERS } from './keys.js';
import { isOwnSegment } from './segment-names.js';

const UPLOAD_MARKER = z.object({
  content_path: z.string(),
  /** The key of the segment (object) that will contain the upload's index line, and no other. */
  segment: z.string(),
  /** True if the upload has failed for good, although its index line may still exist in the segment. */
  failed: z.boolean().optional(),
  /**
   * True if the remains of a failed upload were removed once. They are removed a second time later, because the store
   * may still carry out requests of the upload.
   */
  cleared: z.boolean().optional(),
});

/** The content of a marker, an object in `staging/`: the state of an unfinished upload that has a file. */
export type UploadMarker = Readonly<z.infer<typeof UPLOAD_MARKER>>;

/**
 * Parses the bytes of an upload's marker. Undefined if they aren't a marker, or name the file or segment of another
 * upload. The sweeper may remove the file that a marker names, and overwrite the segment. So a damaged marker must not
 * lead to another upload.
 */
export function parseUploadMarker(key: string, bytes: Buffer): UploadMarker | undefined {
  const marker = UPLOAD_MARKER.safeParse(parseJson(bytes)).data;
  const uploadId = key.slice(MARKERS.length);
  return marker && isContentOf(uploadId, marker.content_path) && isOwnSegment(marker.segment, uploadId) ? marker : undefined;
}

import { z } from 'zod';
import { parseJson } from '../../../../common/text.js';
import { isContentOf } from '../../../domain/layout-names.js';
import { MARKERS } from './keys.js';
import { isOwnSegment } from './segment-names.js';

const UPLOAD_MARKER = z.object({
  content_path: z.string(),
  segment: z.string(),
  failed: z.boolean().optional(),
  /** True if the remains of a failed upload were removed once. They are removed again later (`Sweeper.settle`). */
  cleared: z.boolean().optional(),
});

/** The content of a marker, an object in `staging/`: the state of an unfinished upload that has a file. */
export type UploadMarker = Readonly<z.infer<typeof UPLOAD_MARKER>>;

/**
 * Parses an upload's marker. Undefined if the bytes are anything else, or if the marker names the file or segment of
 * another upload: the sweeper may remove or overwrite these, so a damaged marker must not lead to another upload.
 */
export function parseUploadMarker(key: string, bytes: Buffer): UploadMarker | undefined {
  const marker = UPLOAD_MARKER.safeParse(parseJson(bytes)).data;
  const uploadId = key.slice(MARKERS.length);
  return marker && isContentOf(uploadId, marker.content_path) && isOwnSegment(marker.segment, uploadId) ? marker : undefined;
}

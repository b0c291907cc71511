import { z } from 'zod';
import { parseJson } from '../../../../common/text.js';
import { timeOfUuid } from '../../../../common/uuid.js';
import { isContentOf, uploadIdOfFile } from '../../../domain/layout-names.js';
import { MARKERS } from './keys.js';
import { isSegmentOf, SHARED_APART_MS } from './segment-names.js';

const STATE = {
  segment: z.string(),
  failed: z.boolean().optional(),
  /** True if the remains of a failed upload were removed once. They are removed again later (`Sweeper.settle`). */
  cleared: z.boolean().optional(),
};
const UPLOAD_MARKER = z.union([
  z.object({ ...STATE, content_path: z.string() }),
  /** Of uploads that share a segment (`SmallFiles`). */
  z.object({ ...STATE, content_paths: z.array(z.string()) }),
]);

/** The content of a marker, an object in `staging/`: the state of unfinished uploads with files. */
export type UploadMarker = Readonly<z.infer<typeof UPLOAD_MARKER>>;

const SHARED = '.ndjson';

/** The key of the marker of uploads that share a segment. */
export const sharedMarkerKey = (segment: string): string => MARKERS + segment.slice(segment.lastIndexOf('/') + 1);

/** Whether the object at a key in `staging/` may be the marker of uploads that share a segment. */
export const isSharedMarkerKey = (key: string): boolean => key.endsWith(SHARED);

/** The paths of the files that a marker names. */
export const pathsOf = (marker: UploadMarker): readonly string[] => ('content_paths' in marker ? marker.content_paths : [marker.content_path]);

/**
 * Parses a marker of uploads. Undefined if the bytes are anything else, or if the marker names a file or segment that
 * doesn't fit its key: the sweeper may remove or overwrite these, so a damaged marker must not lead to another upload.
 */
export function parseUploadMarker(key: string, bytes: Buffer): UploadMarker | undefined {
  const marker = UPLOAD_MARKER.safeParse(parseJson(bytes)).data;
  if (!marker) return undefined;
  const isShared = 'content_paths' in marker;
  const id = key.slice(MARKERS.length, isShared ? -SHARED.length : undefined);
  const fits = pathsOf(marker).every((path) => (isShared ? isContentNear : isContentOf)(id, path));
  return fits && isSegmentOf(marker.segment, id) ? marker : undefined;
}

/** Whether a path is that of the file of an upload that began at about the time in the name of its segment. */
function isContentNear(segmentId: string, path: string): boolean {
  const uploadId = uploadIdOfFile(path.slice(path.lastIndexOf('/') + 1));
  return isContentOf(uploadId, path) && Math.abs(timeOfUuid(uploadId) - timeOfUuid(segmentId)) <= SHARED_APART_MS;
}

import { z } from 'zod';
import { parseJson } from '../../../application/line-text.js';

const MARKER = z.object({
  content_path: z.string(),
  /** The key of the segment that will contain only the upload's line. */
  segment: z.string(),
  /** True if the upload has failed for good, although its index line may still exist in the segment. */
  failed: z.boolean().optional(),
  /**
   * True if the remains of a failed upload were removed once. They are removed a second time later, because the store
   * may still carry out requests of the upload.
   */
  cleared: z.boolean().optional(),
});

/** The content of a marker: the state of an unfinished upload with a file. */
export type Marker = Readonly<z.infer<typeof MARKER>>;

/** Parses the bytes of a marker; undefined if they aren't those of a marker. */
export const parseMarker = (bytes: Buffer): Marker | undefined => MARKER.safeParse(parseJson(bytes)).data;

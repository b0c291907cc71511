import { z } from 'zod';
import { parseJson } from '../../../application/line-text.js';

const MARKER = z.object({
  content_path: z.string(),
  /** Where its line will be, alone. */
  segment: z.string(),
  /** Set when the upload has failed for good, though its line may be there. */
  failed: z.boolean().optional(),
  /** Set when what a failed upload left was removed once. The store may still do what it was asked to before. */
  cleared: z.boolean().optional(),
});

/** What is known of an upload with a file that is under way. */
export type Marker = Readonly<z.infer<typeof MARKER>>;

/** Undefined for what is no marker. */
export const parseMarker = (bytes: Buffer): Marker | undefined => MARKER.safeParse(parseJson(bytes)).data;

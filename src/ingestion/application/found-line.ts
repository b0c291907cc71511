import type { Upload } from '../domain/upload.js';

export interface FoundLine {
  readonly upload: Upload;
  /** The path or key of the segment (a file or object of index lines), relative to the store's root. */
  readonly segment: string;
}

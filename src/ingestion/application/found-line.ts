import type { Upload } from '../domain/upload.js';

/** An upload that was found by its index line. */
export interface FoundLine {
  readonly upload: Upload;
  /** The path or key of the line's segment (a file or object of index lines), relative to the store's root. */
  readonly segment: string;
}

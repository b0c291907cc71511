import { z } from 'zod';

export const NOTE = z.object({
  store_id: z.string(),
  /** True once the last step of a move (`finish`) may have written index lines. */
  has_lines: z.boolean().optional(),
  /** When the move was completed, in RFC 3339 and UTC; missing before that. */
  completed_at: z.string().optional(),
  /** SHA-256, in hex, of all index lines that a complete move has written, in the order of the moved store. */
  lines_sha256: z.string().optional(),
});
export type Note = Readonly<z.infer<typeof NOTE>>;

export const bytesOf = (note: Note): Buffer => Buffer.from(`${JSON.stringify(note)}\n`);

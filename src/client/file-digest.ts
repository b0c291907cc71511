import { sha256 } from '@noble/hashes/sha2.js';

/** Computes the sha-256 of a file piece by piece, which `crypto.subtle` can't. Works in browsers without HTTPS, too. */
export class FileDigest {
  private readonly hash = sha256.create();

  add(bytes: Uint8Array): void {
    this.hash.update(bytes);
  }

  /** The digest of all bytes that were added, in the syntax of RFC 9530: `sha-256=:<base64>:`. */
  field(): string {
    return `sha-256=:${btoa(String.fromCharCode(...this.hash.digest()))}:`;
  }
}

/** The sha-256 of a Blob, which is read piece by piece, in the syntax of RFC 9530. */
export async function digestOf(blob: Blob): Promise<string> {
  const digest = new FileDigest();
  const reader = (blob.stream() as ReadableStream<Uint8Array>).getReader();
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) digest.add(piece.value);
  return digest.field();
}

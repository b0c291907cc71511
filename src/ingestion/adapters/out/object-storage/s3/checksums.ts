import { createHash, createHmac } from 'node:crypto';
import zlib from 'node:zlib';
import { Turns } from '../../../../../common/turns.js';

const STEP_BYTES = 256 * 1024;

type Data = string | ArrayBuffer | ArrayBufferView;
type Hash = ReturnType<typeof createHash | typeof createHmac>;

/**
 * Checksums that don't block the event loop. The SDK passes the whole body of a request in one call of `update`; its
 * own checksums would hash the 60 MiB of a long index line at once, for over 100 ms. Here, long bodies are hashed only
 * when `digest` is called, in turns with other jobs, and must not change until it has resolved.
 */
abstract class ChecksumInTurns {
  private waiting: Buffer[] = [];

  update(data: Data): void {
    const bytes = bytesOf(data);
    if (bytes.length > STEP_BYTES || this.waiting.length > 0) this.waiting.push(bytes);
    else this.add(bytes);
  }

  async digest(): Promise<Uint8Array> {
    const turns = new Turns();
    for (const bytes of this.waiting) {
      for (let at = 0; at < bytes.length; at += STEP_BYTES) {
        if (turns.isOver) await turns.next();
        this.add(bytes.subarray(at, at + STEP_BYTES));
      }
    }
    this.waiting = [];
    return this.result();
  }

  reset(): void {
    this.waiting = [];
    this.begin();
  }

  protected abstract begin(): void;
  protected abstract add(bytes: Buffer): void;
  protected abstract result(): Uint8Array;
}

/** SHA-256, with which the SDK signs requests. With a secret, HMAC-SHA-256. */
export class Sha256InTurns extends ChecksumInTurns {
  private hash: Hash;

  constructor(private readonly secret?: Data) {
    super();
    this.hash = this.newHash();
  }

  protected override begin(): void {
    this.hash = this.newHash();
  }

  protected override add(bytes: Buffer): void {
    this.hash.update(bytes);
  }

  protected override result(): Uint8Array {
    return this.hash.digest();
  }

  private newHash(): Hash {
    return this.secret === undefined ? createHash('sha256') : createHmac('sha256', bytesOf(this.secret));
  }
}

/** CRC32, by which the store verifies the bytes that it receives. */
export class Crc32InTurns extends ChecksumInTurns {
  private crc = 0;

  protected override begin(): void {
    this.crc = 0;
  }

  protected override add(bytes: Buffer): void {
    this.crc = zlib.crc32(bytes, this.crc);
  }

  protected override result(): Uint8Array {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(this.crc);
    return bytes;
  }
}

/** The CRC32 of bytes that must not change meanwhile, in base64. */
export async function crc32Of(bytes: Buffer): Promise<string> {
  const checksum = new Crc32InTurns();
  checksum.update(bytes);
  return Buffer.from(await checksum.digest()).toString('base64');
}

function bytesOf(data: Data): Buffer {
  if (typeof data === 'string') return Buffer.from(data);
  return ArrayBuffer.isView(data) ? Buffer.from(data.buffer, data.byteOffset, data.byteLength) : Buffer.from(data);
}

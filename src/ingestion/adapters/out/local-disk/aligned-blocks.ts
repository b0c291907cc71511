import { MIB } from '../../../../common/sizes.js';

/** The length of a block, in bytes. */
export const BLOCK_BYTES = MIB;
/** How many blocks a file gets: one is filled while the other is written. More would take more of Node's threads. */
const BLOCKS = 2;
/** At most this many files have blocks at once. Unused blocks stay in memory: 8 MiB in all. */
const MAX_FILES = 4;

const unused: Uint8Array[][] = [];
let files = 0;

/**
 * Takes memory for the bytes of a file, in blocks that begin at a page of memory. Writes past the page cache (O_DIRECT)
 * require this, and Node's buffers don't begin at a page.
 *
 * @returns undefined if too many files have blocks, or the system grants no memory for more.
 */
export function takeBlocks(): Uint8Array[] | undefined {
  return unused.pop() ?? (files < MAX_FILES ? newBlocks() : undefined);
}

/** Gives blocks back for another file. No write of their bytes may still be in flight. */
export function giveBackBlocks(blocks: Uint8Array[]): void {
  unused.push(blocks);
}

// TypeScript declares WebAssembly only for browsers.
declare const WebAssembly: { readonly Memory: new (pages: { readonly initial: number; readonly maximum: number }) => { readonly buffer: ArrayBuffer } };
/** The unit of a WebAssembly.Memory, in bytes. */
const WASM_PAGE_BYTES = 64 * 1024;

function newBlocks(): Uint8Array[] | undefined {
  const pages = (BLOCKS * BLOCK_BYTES) / WASM_PAGE_BYTES;
  try {
    const { buffer } = new WebAssembly.Memory({ initial: pages, maximum: pages });
    files += 1;
    return Array.from({ length: BLOCKS }, (_, index) => new Uint8Array(buffer, index * BLOCK_BYTES, BLOCK_BYTES));
  } catch {
    // Such a memory reserves several GiB of addresses, which `ulimit -v` may forbid. After a failure, no more blocks
    // are requested, because each attempt would cause a full garbage collection.
    files = MAX_FILES;
    return undefined;
  }
}

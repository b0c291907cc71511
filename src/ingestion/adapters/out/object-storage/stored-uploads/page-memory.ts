import { LONG_LINE_BYTES } from '../../../../application/line-decoding.js';
import type { LineMemory } from '../../../../application/ports/stored-uploads.port.js';

/** The memory of one page of a list of uploads. A page that needs at most 64 KiB takes no memory. */
export class PageMemory {
  private bytes = 0;

  constructor(private readonly memory: LineMemory | undefined) {}

  /**
   * Takes memory or gives it back, so that the page has memory for `bytes` bytes. Call it again only after it has
   * resolved.
   *
   * @throws errors of `LineMemory.take`.
   */
  async hold(bytes: number): Promise<void> {
    const held = this.bytes;
    this.bytes = bytes > LONG_LINE_BYTES ? bytes : 0;
    if (this.bytes > held) await this.memory?.take(this.bytes - held);
    else this.memory?.giveBack(held - this.bytes);
  }
}

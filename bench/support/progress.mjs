/**
 * Shows progress as one line on standard error, which is overwritten. Shows nothing if standard error isn't a terminal.
 */
export class Progress {
  #shown = 0;

  show(text) {
    if (!process.stderr.isTTY || Date.now() - this.#shown < 100) return;
    this.#shown = Date.now();
    process.stderr.write(`\r\x1b[K${text}`);
  }

  clear() {
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
    this.#shown = 0;
  }
}

import type { ServerResponse } from 'node:http';

/**
 * Breaks the connection of a response if its client reads nothing for `idleTimeoutMs`, in milliseconds, although bytes
 * wait for it. So a client that doesn't read its answer can't keep it in memory. The time in which the service has
 * nothing to send doesn't count.
 */
export function breakIfUnread(response: ServerResponse, idleTimeoutMs: number): void {
  response.setTimeout(idleTimeoutMs, () => {
    if (response.writableLength > 0) response.destroy();
  });
}

import type { Socket } from 'node:net';

/** A waiting request takes some 6 KB. */
const MAX_WAITING = 10_000;

/**
 * Counts the requests of the process that wait because an earlier request of their connection isn't answered yet
 * (pipelining, RFC 9112, section 9.3.2). One read of a connection may bring some 2,600 requests. What many connections
 * send in the same moment, Node reads before it lets go of the connections that were broken for it.
 */
export class WaitingRequests {
  private readonly counts = new Map<Socket, number>();
  private all = 0;

  /** Adds a request. If more than 10,000 wait then, breaks the connection of which most wait. */
  add(socket: Socket): void {
    if (socket.destroyed) return;
    this.counts.set(socket, (this.counts.get(socket) ?? 0) + 1);
    this.all++;
    if (this.all > MAX_WAITING) this.breakLongest();
  }

  /** Removes a request of a connection, and returns how many others of it wait. */
  remove(socket: Socket): number {
    const count = this.counts.get(socket) ?? 0;
    if (count <= 1) this.counts.delete(socket);
    else this.counts.set(socket, count - 1);
    if (count > 0) this.all--;
    return Math.max(0, count - 1);
  }

  private breakLongest(): void {
    let [longest, most]: [Socket | undefined, number] = [undefined, 0];
    for (const [socket, count] of this.counts) if (count > most) [longest, most] = [socket, count];
    if (!longest) return;
    this.counts.delete(longest);
    this.all -= most;
    longest.destroy();
  }
}

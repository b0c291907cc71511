import type { Socket } from 'node:net';

/** A waiting request takes some 6 KB. */
const MAX_WAITING = 10_000;

/** Reading stops after 5,000 waiting requests in one turn of the event loop. One read of a connection may bring 3,640. */
const MAX_PER_TURN = 5_000;

/** Node's internal handle of a connection. `reading` is whether Node wants to read. Stopping the handle doesn't change that. */
interface Handle {
  readonly reading: boolean;
  readStart(): void;
  readStop(): void;
}
type Connection = Socket & { readonly _handle?: Handle | null };

/**
 * Counts the requests of the process that wait because an earlier request of their connection isn't answered yet
 * (pipelining, RFC 9112, section 9.3.2).
 *
 * In one turn of the event loop, Node reads all connections that have sent something. Lost connections and their requests
 * are freed only after that. So the requests of a turn are bounded, too.
 */
export class WaitingRequests {
  private readonly connections = new Set<Connection>();
  private readonly counts = new Map<Socket, number>();
  private all = 0;
  private ofTurn = 0;

  /** Adds a connection, whose reading may be stopped until the next turn. */
  addConnection(connection: Connection): void {
    this.connections.add(connection);
    connection.once('close', () => this.connections.delete(connection));
  }

  /** Adds a request. If more than 10,000 then wait, breaks the connection that has the most. */
  add(socket: Socket): void {
    if (this.ofTurn === 0) setImmediate(() => { this.beginTurn(); });
    this.ofTurn++;
    if (this.ofTurn % MAX_PER_TURN === 0) this.stopReading();
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

  /** Stops the handles, not the sockets, so that others can still pause and resume the sockets. */
  private stopReading(): void {
    for (const { _handle: handle } of this.connections) if (handle?.reading) handle.readStop();
  }

  private beginTurn(): void {
    if (this.ofTurn >= MAX_PER_TURN) {
      for (const { _handle: handle } of this.connections) if (handle?.reading) handle.readStart();
    }
    this.ofTurn = 0;
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

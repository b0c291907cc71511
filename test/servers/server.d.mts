export interface ServerOptions {
  /** Receives the output of the server. */
  log?: (text: string) => void;
}

/**
 * A server in its own process, on a free port of the loopback interface. It ends with the process that started it, even
 * if that process crashes.
 */
export interface Server {
  /** The address of the server, `http://host:port`. */
  readonly endpoint: string;
  /** The directory of the server's data. */
  readonly directory: string;
  /** The id of the server's current or last process. */
  readonly pid: number;
  /** Pauses the server's process (SIGSTOP). Connections are then still accepted, but nothing is answered. */
  pause(): Promise<void>;
  /** Resumes the server's process (SIGCONT). */
  resume(): void;
  /** Kills the server's process (SIGKILL), and keeps its data. */
  kill(): Promise<void>;
  /**
   * Restarts the server after `kill()`, with the same port and data, and waits until it answers. Rejects with its
   * output if it ends before, or doesn't answer in 180 s.
   */
  restart(): Promise<void>;
  /** Stops the server and removes its data. */
  stop(): Promise<void>;
}

/** Finds a free port of the loopback interface, below those that the system uses for outgoing connections. */
export function freePort(): Promise<number>;

export interface ServerOptions {
  /** Receives the output of the server. */
  log?: (text: string) => void;
}

/** A server in its own process, on a free port of the loopback interface. It ends with the process that started it, even after a crash. */
export interface Server {
  /** `http://host:port` */
  readonly endpoint: string;
  /** The directory of its data. */
  readonly directory: string;
  /** The id of the current or last process. */
  readonly pid: number;
  /** Pauses its process (SIGSTOP). Once this resolves, connections are still accepted but nothing is answered. */
  pause(): Promise<void>;
  /** Resumes its process (SIGCONT). */
  resume(): void;
  /** Kills its process (SIGKILL), and keeps its data. */
  kill(): Promise<void>;
  /** Restarts it after `kill()`, with the same port and data, and waits until it answers. Rejects with its output if it ends before. */
  restart(): Promise<void>;
  /** Stops it and removes its data. */
  stop(): Promise<void>;
}

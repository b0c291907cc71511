export interface ServerOptions {
  /** Gets what the server writes. */
  log?: (text: string) => void;
}

/** A server in a process of its own, on a free port of the loopback. It ends with the process that started it, however that ends. */
export interface Server {
  /** `http://host:port` */
  readonly endpoint: string;
  /** Where its data is. */
  readonly directory: string;
  /** Of the process that runs, or ran last. */
  readonly pid: number;
  /** Stops its process where it is (SIGSTOP): connections are still taken, and nothing is answered once this resolves. */
  pause(): Promise<void>;
  /** Lets its process go on (SIGCONT). */
  resume(): void;
  /** Ends its process at once (SIGKILL), and keeps its data. */
  kill(): Promise<void>;
  /** Starts it again after `kill()`, on the same port and data, and waits until it answers; rejects with what it wrote when it ends before. */
  restart(): Promise<void>;
  /** Ends it and removes its data. */
  stop(): Promise<void>;
}

export function installNode(version: string): Promise<string>;

/** A JavaScript runtime other than Node. */
export interface Runtime {
  readonly name: string;
  /** Whether npm has a package of the runtime for this machine. */
  readonly isAvailable: boolean;
  /** Installs the runtime unless it is installed. Resolves to the path of its program. */
  readonly install: () => Promise<string>;
  /** The runtime's parameters for a script that may use the network and read files below a folder. */
  readonly parameters: (folder: string) => readonly string[];
}

export const RUNTIMES: readonly Runtime[];
/** The names of the runtimes for which npm has no package for this machine. */
export const MISSING_RUNTIMES: readonly string[];

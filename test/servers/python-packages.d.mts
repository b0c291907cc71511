/** Packages for Python that are installed together in a directory of their own, outside the repository. */
export interface PythonPackages {
  /** The directory, which Python finds by PYTHONPATH. */
  readonly path: string;
  /** Whether they are available on this machine: they are installed, or Python has pip to install them. */
  readonly areAvailable: boolean;
  /** Installs them unless they are installed. */
  install(): Promise<void>;
}

export const POLARS: PythonPackages;
/** What the receiver in docs/telling-uploads.md needs. */
export const FLASK_RECEIVER: PythonPackages;

/** Packages for Python that are installed together in a directory of their own, outside the repository. */
export interface PythonPackages {
  /** The directory of the packages, which Python finds by PYTHONPATH. */
  readonly path: string;
  /** Whether the packages are available on this machine: they are installed, or Python has pip to install them. */
  readonly areAvailable: boolean;
  /** Installs the packages unless they are installed. */
  install(): Promise<void>;
}

export const POLARS: PythonPackages;
/** The packages that the webhook receiver in docs/telling-uploads.md needs. */
export const FLASK_RECEIVER: PythonPackages;

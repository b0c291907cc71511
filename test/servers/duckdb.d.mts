/** The environment variables with which Python finds DuckDB, and DuckDB its extensions. */
export const DUCKDB_ENVIRONMENT: { readonly HOME: string; readonly PYTHONPATH: string };

/** Whether DuckDB is available here: it is installed, or Python has pip to install it. */
export function isDuckDbAvailable(): boolean;

/** Installs DuckDB outside the repository unless it is installed. */
export function installDuckDb(): Promise<void>;

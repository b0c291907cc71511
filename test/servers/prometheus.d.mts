import type { Server } from './server.mjs';

/** A Prometheus on the loopback interface. */
export interface Prometheus extends Server {
  /** Evaluates an expression, now. Resolves to the series of the result. */
  query(expression: string): Promise<{ readonly metric: Readonly<Record<string, string>>; readonly value: readonly [number, string] }[]>;
}

/** Whether Prometheus and promtool are installed. */
export function isPrometheusAvailable(): boolean;

/** Starts a Prometheus that scrapes each second. `targets` are hosts with ports; `rules` is the path of a file of rules. */
export function startPrometheus(options: { readonly job: string; readonly targets: readonly string[]; readonly rules: string }): Promise<Prometheus>;

/** Runs promtool. Resolves to its exit code, and what it printed. */
export function runPromtool(parameters: readonly string[], input?: string): Promise<{ readonly code: number; readonly output: string }>;

import type { Server, ServerOptions } from './server.mjs';

/** Keycloak on the loopback interface, with one realm besides its own, all in memory: `restart()` restores the original realm with new keys. */
export interface Keycloak extends Server {
  /**
   * Calls the Admin API of the realm as Keycloak's administrator. `path` begins after the name of the realm. Rejects if the
   * status isn't 2xx.
   */
  administer(method: string, path: string, body?: unknown): Promise<unknown>;
}

export interface KeycloakOptions extends ServerOptions {
  /** The realm in Keycloak's own format, as for an import. */
  realm: { readonly realm: string; readonly [member: string]: unknown };
  /** Options of Java. Default: a heap, a compiler and a garbage collector that start fast. */
  virtualMachine?: string[];
}

export function isKeycloakAvailable(): boolean;
export function installKeycloak(): Promise<void>;
export function startKeycloak(options: KeycloakOptions): Promise<Keycloak>;

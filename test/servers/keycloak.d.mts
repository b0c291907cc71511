import type { Server, ServerOptions } from './server.mjs';

/** Keycloak on the loopback, with one realm beside its own. It keeps all in memory: `restart()` begins with the realm as it was given, and new keys. */
export interface Keycloak extends Server {
  /**
   * Calls the Admin API of the realm as Keycloak's administrator; `path` begins behind the realm's name. Rejects when the
   * status isn't 2xx.
   */
  administer(method: string, path: string, body?: unknown): Promise<unknown>;
}

export interface KeycloakOptions extends ServerOptions {
  /** In Keycloak's own form, as for an import. */
  realm: { readonly realm: string; readonly [member: string]: unknown };
  /** Options of Java's: a heap, a compiler and a collector that start fast unless told. */
  virtualMachine?: string[];
}

export function isKeycloakAvailable(): boolean;
export function installKeycloak(): Promise<void>;
export function startKeycloak(options: KeycloakOptions): Promise<Keycloak>;
